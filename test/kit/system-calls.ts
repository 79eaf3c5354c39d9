import type * as fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'

const builtin = createRequire(import.meta.url)('node:fs') as typeof fs
const names = Object.keys(builtin).filter(name => /^(?!realpath).*Sync$/.test(name)) as (keyof typeof fs)[]

/** How often `work` calls each function of the file system that returns when it is done, by name. */
export async function systemCalls(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const real = Object.fromEntries(names.map(name => [name, builtin[name]]))
  const counts: Record<string, number> = {}
  for (const name of names)
    Object.assign(builtin, {
      [name](...args: unknown[]) {
        counts[name] = (counts[name] ?? 0) + 1
        return (real[name] as (...all: unknown[]) => unknown)(...args)
      },
    })
  syncBuiltinESMExports()
  try {
    await work()
    return counts
  } finally {
    Object.assign(builtin, real)
    syncBuiltinESMExports()
  }
}
