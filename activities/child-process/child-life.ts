import { Worker } from 'node:worker_threads'
import type { Owner } from '../../lib/folders/owner.ts'

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

/** For a child: carries out the one job that it is given, replies and ends. It ends as well when its channel is closed. */
export function answerJob<Job, Reply extends object>(carryOut: (job: Job) => Promise<Reply>): void {
  process.once('disconnect', () => process.exit(1))
  process.once('message', async (job: Job) => {
    const reply = await carryOut(job)
    process.send!(reply, () => process.exit(0))
  })
}

/** What a child replies when it fails. */
export function failedReply(error: unknown): { kind: 'failed'; code: string | null; message: string } {
  const { code, message } = error as NodeJS.ErrnoException
  return { kind: 'failed', code: code ?? null, message }
}

/**
 * For a child: from here on with the rights of the application only. The folders must be the application's already: root would
 * else be led, by a link further up, to a folder of somebody else.
 */
export function becomeOwner(owner: Owner | null, folders: readonly { uid: number }[]): void {
  if (owner === null || process.getuid!() !== 0) return
  for (const { uid } of folders)
    if (uid !== owner.uid) throw new Error(`A folder to write to does not belong to user ${owner.uid}.`)
  process.setgroups!([])
  process.setgid!(owner.gid)
  process.setuid!(owner.uid)
}
