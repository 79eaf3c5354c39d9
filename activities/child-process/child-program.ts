import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundledProgram } from '../../lib/bundled-program.ts'
import { type ChildProcess, type StdioOptions, startProcess } from '../../lib/child-process.ts'
import { processStat } from '../../lib/process-stat.ts'

// Compiled, a child is JavaScript; in tests it is TypeScript.
const extension = extname(import.meta.url)

/** Starts `child` of one folder of activities/ with an empty environment and only the given descriptors. */
export function startChild(
  folder: string,
  stdio: Extract<StdioOptions, readonly unknown[]>,
  nodeArguments: readonly string[] = [],
): ChildProcess {
  const path = fileURLToPath(new URL(`../${folder}/child${extension}`, import.meta.url))
  const start = (args: readonly string[], more: readonly number[] = []) =>
    startProcess(process.execPath, [...nodeArguments, ...args], { cwd: '/', stdio: [...stdio, ...more] })
  if (extension === '.js') return start([path])
  // Without the option Node resolves the program's real path, and it has none.
  return start(['--preserve-symlinks-main', `/proc/self/fd/${stdio.length}`], [bundledProgram(path)])
}

/** CPU time of small work. A child that needs more lets requests, and the small work of others, go first. */
const giveWayAfterMs = 500
const checkEveryMs = 250
const niceness = 5

/** Lowers the priority of a child once it has used much CPU time; the returned function ends the watch. */
export function giveWayLater({ pid }: ChildProcess): () => void {
  const timer = setInterval(() => {
    if (pid === undefined || (processStat(pid)?.used ?? 0) * 10 < giveWayAfterMs) return
    clearInterval(timer)
    makeNice(pid)
  }, checkEveryMs).unref()
  return () => clearInterval(timer)
}

/** Applies to all threads: each has its own priority, and the first one does little of the work. */
function makeNice(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness)
  } catch {
    // It has ended, or the system shows no threads.
  }
}
