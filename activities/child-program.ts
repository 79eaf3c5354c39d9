import { readdirSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { type ChildProcess, type StdioOptions, startProcess } from '../lib/child-process.ts'

// TypeScript in tests, JavaScript beside it once compiled.
const extension = extname(import.meta.url)
const loader = extension === '.ts' ? ['--import', import.meta.resolve('tsx')] : []

/** Starts `<name>.child`, which lies in this folder, with nothing of ours: an empty environment, only the descriptors given. */
export function startChild(name: string, stdio: StdioOptions, nodeArguments: readonly string[] = []): ChildProcess {
  const program = fileURLToPath(new URL(`./${name}.child${extension}`, import.meta.url))
  return startProcess(process.execPath, [...nodeArguments, ...loader, program], { cwd: '/', stdio })
}

/** Small work takes less of a processor. What takes more lets requests, and the small work of others, go first from there on. */
const giveWayAfterMs = 500
const lookEveryMs = 250
const niceness = 5

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

/**
 * For a child that is busy for long without hearing anything, as when it reads a large file: it ends within a second of the process that
 * it works for. The others hear that their channel is closed.
 */
export function endWithParent(): void {
  const watch = `const { workerData } = require('node:worker_threads')
    setInterval(() => process.ppid === workerData || process.kill(process.pid, 'SIGKILL'), 500)`
  new Worker(watch, { eval: true, workerData: process.ppid, execArgv: [], resourceLimits: watchLimits }).unref()
}

const watchLimits = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 }

/**
 * For a child: from here on with the rights of the application only. The folders must be the application's already: root would
 * else be led, by a link further up, to a folder of somebody else.
 */
export function becomeOwner(owner: { uid: number; gid: number } | null, folders: readonly { uid: number }[]): void {
  if (owner === null || process.getuid!() !== 0) return
  for (const { uid } of folders)
    if (uid !== owner.uid) throw new Error(`A folder to write to does not belong to user ${owner.uid}.`)
  process.setgroups!([])
  process.setgid!(owner.gid)
  process.setuid!(owner.uid)
}
