import { readdirSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundledProgram } from '../lib/bundled-program.ts'
import { type ChildProcess, type StdioOptions, startProcess } from '../lib/child-process.ts'

// Compiled, a child lies beside this file; in tests it is TypeScript.
const extension = extname(import.meta.url)

/** Starts `<name>.child`, which lies in this folder, with nothing of ours: an empty environment, only the descriptors given. */
export function startChild(
  name: string,
  stdio: Extract<StdioOptions, readonly unknown[]>,
  nodeArguments: readonly string[] = [],
): ChildProcess {
  const path = fileURLToPath(new URL(`./${name}.child${extension}`, import.meta.url))
  const start = (args: readonly string[], more: readonly number[] = []) =>
    startProcess(process.execPath, [...nodeArguments, ...args], { cwd: '/', stdio: [...stdio, ...more] })
  if (extension === '.js') return start([path])
  // Without the option Node asks for the program's real path, and it has none.
  return start(['--preserve-symlinks-main', `/proc/self/fd/${stdio.length}`], [bundledProgram(path)])
}

/** Small work takes less of a processor. What takes more lets requests, and the small work of others, go first from there on. */
const giveWayAfterMs = 500
const lookEveryMs = 250
const niceness = 10

/** Makes a child give way to others once it has computed for long; the returned function ends the watch. */
export function giveWayLater({ pid }: ChildProcess): () => void {
  const timer = setInterval(() => {
    if (pid === undefined || computedMs(pid) < giveWayAfterMs) return
    clearInterval(timer)
    makeNice(pid)
  }, lookEveryMs).unref()
  return () => clearInterval(timer)
}

/** Fields 14 and 15 of its line in /proc, in hundredths of a second. 0 when it has ended, or the system shows no processes. */
function computedMs(pid: number): number {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [user, system] = line
      .slice(line.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
    return (Number(user) + Number(system)) * 10
  } catch {
    return 0
  }
}

/** All its threads: each has a priority of its own, and most of the work is not done by the first. */
function makeNice(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness)
  } catch {
    // It has ended, or the system shows no threads.
  }
}
