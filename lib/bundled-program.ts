import { randomUUID } from 'node:crypto'
import { openSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Loaded on first use: the compiled product never bundles. */
const bundler = (): typeof import('esbuild') => createRequire(import.meta.url)('esbuild')

const programs = new Map<string, number>()

/**
 * Bundles a TypeScript program with its imports into one JavaScript file at its first use; returns a descriptor from which
 * children read it. That costs 30 ms once, while a child that compiles itself needs 300 ms of CPU each time: more than its
 * work. The file is unlinked, so nothing is left however this process ends.
 */
export function bundledProgram(entry: string): number {
  const present = programs.get(entry)
  if (present !== undefined) return present
  const { outputFiles } = bundler().buildSync({ entryPoints: [entry], bundle: true, write: false, ...forNode })
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
