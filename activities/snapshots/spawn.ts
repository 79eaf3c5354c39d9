import type { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { smallYoungGeneration } from '../archives/spawn.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import type { SnapshotJob, SnapshotReply, SnapshotWish } from './job.ts'
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
  readonly #child: JobChild<SnapshotJob, SnapshotReply>
  /** What it replied; rejects with why it ended without, `SnapshotCorrupt` or `NoSpaceLeft`. */
  readonly done: Promise<MadeSnapshot | null>
  /** Whether it failed by itself, and so cleaned up after itself. */
  cleaned = false

  constructor(job: SnapshotJob, { archive, memoryBytes, signal, onWish, onPeak }: ChildOptions) {
    this.#child = new JobChild('snapshots', {
      what: 'The snapshot',
      nodeArguments: thrifty,
      descriptor: archive ?? 'pipe',
      signal,
      onWord: word => onWish?.((word as SnapshotWish).kind),
    })
    const large = () => new Error('The snapshot requires too much memory.')
    this.done = this.#child.run(job, { memoryBytes, large }).then(reply => this.#settle(reply, onPeak))
    this.done.catch(ignoreError('reported to the caller that awaits it'))
  }

  /** What it writes. */
  get output(): Readable {
    return this.#child.output as Readable
  }

  goOn(): void {
    this.#child.send('paused')
  }

  /** Ends it, for this reason. After its end this is nothing. */
  end(why: Error): void {
    this.#child.end(why)
  }

  #settle(reply: SnapshotReply, onPeak?: (bytes: number) => void): MadeSnapshot | null {
    this.cleaned = reply.kind !== 'done'
    onPeak?.(reply.peakBytes)
    if (reply.kind === 'done') return reply.snapshot
    if (reply.kind === 'refused') throw new SnapshotRefused(reply.message)
    if (reply.kind === 'corrupt') throw new SnapshotCorrupt(reply.message)
    throw failureOf(reply, 'The application has no disk space left to unpack the snapshot beside its files.')
  }
}
