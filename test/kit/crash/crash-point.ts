import * as fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'

// A process that is killed between two system calls, without a process: from the n-th change of the disk on, none happens.

const builtin = createRequire(import.meta.url)('node:fs') as typeof fs
const changing = [
  ...(['renameSync', 'linkSync', 'mkdirSync', 'rmdirSync', 'unlinkSync', 'writeFileSync'] as const),
  ...(['openSync', 'ftruncateSync', 'chmodSync', 'fchmodSync'] as const),
]

/** An open changes something only where it may make or empty a file. */
const onlyReads = (name: string, flags: unknown): boolean =>
  name === 'openSync' &&
  (typeof flags === 'number' ? (flags & fs.constants.O_CREAT) === 0 : !/^[aw]/.test(String(flags)))

class Crash extends Error {
  override name = 'Crash'
}

/**
 * Runs `work` until its n-th change of the disk, half of which happens when it writes. Resolves to whether it came to its end. What it
 * had open at a crash is closed, as the kernel closes what a killed process had open.
 */
export async function crashAt(n: number, work: () => Promise<unknown>): Promise<boolean> {
  const real = Object.fromEntries(changing.map(name => [name, builtin[name]])) as Record<string, unknown>
  const closeSync = builtin.closeSync
  const open = new Set<number>()
  let changes = 0
  const happen = (name: string, args: unknown[]) => {
    const result = (real[name] as (...all: unknown[]) => unknown)(...args)
    if (name === 'openSync') open.add(result as number)
    return result
  }
  Object.assign(builtin, {
    closeSync(fd: number) {
      closeSync(fd)
      open.delete(fd)
    },
  })
  for (const name of changing)
    Object.assign(builtin, {
      [name]: (...args: unknown[]) => {
        if (onlyReads(name, args[1])) return happen(name, args)
        changes++
        if (changes < n) return happen(name, args)
        if (changes === n && name === 'writeFileSync') {
          const text = String(args[1])
          const write = real.writeFileSync as typeof fs.writeFileSync
          write(args[0] as number, text.slice(0, text.length / 2))
        }
        throw new Crash(`at change ${n}: ${name}`)
      },
    })
  syncBuiltinESMExports()
  try {
    await work()
    return true
  } catch (error) {
    if (!(error instanceof Crash)) throw error
    for (const fd of open) closeSync(fd)
    return false
  } finally {
    Object.assign(builtin, real, { closeSync })
    syncBuiltinESMExports()
  }
}
