import { Worker } from 'node:worker_threads'
import type { Owner } from '../../lib/folders/owner.ts'

/**
 * For a child that may block for long, as when it reads a large file: it ends within a second of its parent. Other children notice
 * that their channel is closed.
 */
export function endWithParent(): void {
  const watch = `const { workerData } = require('node:worker_threads')
    setInterval(() => process.ppid === workerData || process.kill(process.pid, 'SIGKILL'), 500)`
  new Worker(watch, { eval: true, workerData: process.ppid, execArgv: [], resourceLimits: watchLimits }).unref()
}

const watchLimits = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 }

/** For a child: carries out its one job, replies and ends. It also ends when its channel is closed. */
export function answerJob<Job, Reply extends object>(carryOut: (job: Job) => Promise<Reply>): void {
  process.once('disconnect', () => process.exit(1))
  process.once('message', async (job: Job) => {
    const reply = await carryOut(job)
    process.send!(reply, () => process.exit(0))
  })
}

/** The reply of a child that fails. */
export function failedReply(error: unknown): { kind: 'failed'; code: string | null; message: string } {
  const { code, message } = error as NodeJS.ErrnoException
  return { kind: 'failed', code: code ?? null, message }
}

/**
 * For a child: reduces its rights to those of the application. The folders must already belong to the application: otherwise a link
 * further up could lead root to another one's folder.
 */
export function becomeOwner(owner: Owner | null, folders: readonly { uid: number }[]): void {
  if (owner === null || process.getuid!() !== 0) return
  for (const { uid } of folders)
    if (uid !== owner.uid) throw new Error(`A folder to write to does not belong to user ${owner.uid}.`)
  process.setgroups!([])
  process.setgid!(owner.gid)
  process.setuid!(owner.uid)
}
