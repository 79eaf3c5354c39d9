import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundledProgram } from '../../lib/bundled-program.ts'
import { type ChildProcess, type StdioOptions, startProcess } from '../../lib/child-process.ts'
import { processStat } from '../../lib/process-stat.ts'

// Compiled, a child is JavaScript; in tests it is TypeScript.
const extension = extname(import.meta.url)

/** Starts `child` of one folder of activities/ with nothing of ours: an empty environment, only the descriptors given. */
export function startChild(
  folder: string,
  stdio: Extract<StdioOptions, readonly unknown[]>,
  nodeArguments: readonly string[] = [],
): ChildProcess {
  const path = fileURLToPath(new URL(`../${folder}/child${extension}`, import.meta.url))
  const start = (args: readonly string[], more: readonly number[] = []) =>
    startProcess(process.execPath, [...nodeArguments, ...args], { cwd: '/', stdio: [...stdio, ...more] })
  if (extension === '.js') return start([path])
  // Without the option Node asks for the program's real path, and it has none.
  return start(['--preserve-symlinks-main', `/proc/self/fd/${stdio.length}`], [bundledProgram(path)])
}

/** Small work takes less of a processor. What takes more lets requests, and the small work of others, go first from there on. */
const giveWayAfterMs = 500
const lookEveryMs = 250
const niceness = 5

/** Makes a child give way to others once it has computed for long; the returned function ends the watch. */
export function giveWayLater({ pid }: ChildProcess): () => void {
  const timer = setInterval(() => {
    if (pid === undefined || (processStat(pid)?.used ?? 0) * 10 < giveWayAfterMs) return
    clearInterval(timer)
    makeNice(pid)
  }, lookEveryMs).unref()
  return () => clearInterval(timer)
}

/** All its threads: each has a priority of its own, and most of the work is not done by the first. */
function makeNice(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness)
  } catch {
    // It has ended, or the system shows no threads.
  }
}
