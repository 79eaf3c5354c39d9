import type { Readable } from 'node:stream'
import type { ChildProcess } from '../../lib/child-process.ts'
import { smallYoungGeneration } from '../archives/spawn.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import { watchResident } from '../child-process/memory.ts'
import { NoSpaceLeft } from '../containers/port.ts'
import { archiveDescriptor, type SnapshotJob, type SnapshotReply, type SnapshotWish } from './job.ts'
import { type MadeSnapshot, SnapshotCorrupt, SnapshotRefused } from './port.ts'

export interface ChildOptions {
  /** The archive to read; null for a pipe that one is written to. */
  archive: number | null
  /** Resident bytes beyond which it is ended. */
  memoryBytes: number
  signal: AbortSignal
  onWish?: (wish: SnapshotWish['kind']) => void
  onPeak?: (bytes: number) => void
}

/** Left to itself, the heap grows to twice what 50,000 files take, before it looks for what is no longer needed. */
const thrifty = [...smallYoungGeneration, '--optimize-for-size']

/** One child process for one job, ended by the signal, by its memory, or by its parent's end. */
export class SnapshotChild {
  readonly #process: ChildProcess
  /** What it replied; rejects with why it ended without, `SnapshotCorrupt` or `NoSpaceLeft`. */
  readonly done: Promise<MadeSnapshot | null>
  /** Whether it failed by itself, and so cleaned up after itself. */
  cleaned = false
  #why: Error | null = null

  constructor(job: SnapshotJob, options: ChildOptions) {
    const { archive, memoryBytes, signal } = options
    signal.throwIfAborted()
    const stdio = ['ignore', 'ignore', 'inherit', 'ipc', archive ?? 'pipe'] as const
    this.#process = startChild('snapshots', [...stdio], thrifty)
    const stopWaiting = giveWayLater(this.#process)
    const cancel = () => this.end(signal.reason)
    signal.addEventListener('abort', cancel, { once: true })
    const unwatch = watchResident(this.#process.pid!, memoryBytes, () =>
      this.end(new Error('The snapshot takes too much memory.')),
    )
    this.done = this.#reply(options).finally(() => {
      unwatch()
      stopWaiting()
      signal.removeEventListener('abort', cancel)
    })
    this.done.catch(() => {}) // told to whoever asks
    this.#process.send(job, () => {})
  }

  /** What it writes. */
  get output(): Readable {
    return this.#process.stdio[archiveDescriptor] as Readable
  }

  goOn(): void {
    this.#process.send('paused', () => {})
  }

  /** Ends it, for this reason. After its end this is nothing. */
  end(why: Error): void {
    this.#why ??= why
    this.#process.kill('SIGKILL')
    this.output?.destroy()
  }

  #reply({ onWish, onPeak }: ChildOptions): Promise<MadeSnapshot | null> {
    return new Promise((resolve, reject) => {
      let reply: SnapshotReply | null = null
      this.#process.once('error', reject)
      this.#process.on('message', (message: SnapshotWish | SnapshotReply) => {
        if ('peakBytes' in message) reply = message
        else onWish?.(message.kind)
      })
      // Not at 'exit': its last message may still be on the way then, and so may what it wrote.
      this.#process.once('close', (code, signal) => {
        this.cleaned = reply !== null && reply.kind !== 'done'
        if (reply) onPeak?.(reply.peakBytes)
        if (this.#why) reject(this.#why)
        else if (reply?.kind === 'done') resolve(reply.snapshot)
        else reject(reply ? problem(reply) : new Error(`The snapshot was cut off by ${signal ?? `exit code ${code}`}.`))
      })
    })
  }
}

function problem(reply: Exclude<SnapshotReply, { kind: 'done' }>): Error {
  if (reply.kind === 'refused') return new SnapshotRefused(reply.message)
  if (reply.kind === 'corrupt') return new SnapshotCorrupt(reply.message)
  if (reply.code === 'ENOSPC' || reply.code === 'EDQUOT')
    return new NoSpaceLeft('The application has no disk space left to unpack the snapshot beside its files.')
  return Object.assign(new Error(reply.message), { code: reply.code })
}
