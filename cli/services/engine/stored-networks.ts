import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A network that the engine was deleting: it has given the addresses back already, and its pools are still listed. */
const halfDeleted =
  /("inDelete":true\s*,"ingress":\w+,"internal":\w+,"ipamOptions":(?:null|\{[^{}]*\}),"ipamType":"\w+",)("ipamV4Config":"\[\{(?:[^"\\]|\\.)*")(?=,\s*"(?!ipamV4Info))/g

/**
 * Repairs networks that an ended engine has half deleted, so that its next start removes them; returns their number. Engines before 20.10.25 panic over one at each
 * start (moby 45057); one without pools they remove. `dataRoot` is the folder of an engine that does not run.
 */
export function repairNetworks(dataRoot: string): number {
  const path = join(dataRoot, 'network', 'files', 'local-kv.db')
  let repaired = 0
  // A bolt database: its values have no checksum, and must keep their length.
  const store = contentOf(path)?.replace(halfDeleted, (_, before: string, pools: string) => {
    repaired++
    return `${before}${'"ipamV4Config":"[]"'.padEnd(pools.length)}`
  })
  if (!store || !repaired) return 0
  writeFileSync(`${path}.repaired`, store, { encoding: 'latin1', mode: 0o600, flush: true })
  renameSync(`${path}.repaired`, path)
  return repaired
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined // this engine has never run
  }
}
