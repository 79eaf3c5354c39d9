import { randomUUID } from 'node:crypto'
import { openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildSync } from 'esbuild'

const programs = new Map<string, number>()

/**
 * A program in TypeScript and all that it imports as one file of JavaScript, bundled at its first use; returns a descriptor that
 * children read it from. It costs 30 ms once, where a child that compiles itself needs 300 ms of a processor each time: more than its
 * work. The file has no name, so nothing is left of it, however this process ends.
 */
export function bundledProgram(entry: string): number {
  const present = programs.get(entry)
  if (present !== undefined) return present
  const { outputFiles } = buildSync({ entryPoints: [entry], bundle: true, write: false, ...forNode })
  const path = join(tmpdir(), `berth-${randomUUID()}.cjs`)
  try {
    writeFileSync(path, outputFiles[0]!.contents, { mode: 0o600, flag: 'wx' })
    const descriptor = openSync(path, 'r')
    programs.set(entry, descriptor)
    return descriptor
  } finally {
    rmSync(path, { force: true })
  }
}

const forNode = { platform: 'node', format: 'cjs', target: 'node20', logLevel: 'error' } as const
