import type { Installation } from '../installation/installation.ts'
import { toyModelWords } from '../installation/summary.ts'
import { systemContainer } from '../secrets/outside-verdicts.ts'
import { hostAndPort, listens } from './addresses.ts'
import type { Finding } from './findings.ts'
import { isFurtherHost } from './manner.ts'

const name = 'ai'

/** Whether the language models of the AI gateway accept connections; nothing where none is configured, or the API is elsewhere. */
export async function aiFindings(installation: Installation): Promise<Finding[]> {
  if (installation.runsToyModel) return [{ name, state: toyModelWords }]
  if (isFurtherHost(installation)) return []
  const addresses = installation.config.ai.upstreams.map(({ url }) => hostAndPort(url))
  if (addresses.length === 0) {
    const container = systemContainer('ai', installation)
    return container === null ? [] : [{ name, state: `language models unknown here: ${container}` }]
  }
  const probes = await Promise.all(addresses.map(async address => ((await listens(address)) ? [] : [address])))
  return [upstreamFinding(addresses, probes.flat())]
}

/** By those of the addresses at which nothing answers. Whether keys and models are right shows only a call, which may cost money. */
export function upstreamFinding(addresses: readonly string[], silent: readonly string[]): Finding {
  if (silent.length === 0) return { name, state: `language models answer at ${addresses.join(', ')}` }
  const rest = addresses.length - silent.length
  return {
    name,
    state: `NOTHING ANSWERS at ${silent.join(', ')}; ${rest === 0 ? 'every call is refused' : `${rest} of ${addresses.length} language models can be reached`}`,
    remedy: 'start it there, or correct AI_UPSTREAM_URL; then: berth ai check',
  }
}
