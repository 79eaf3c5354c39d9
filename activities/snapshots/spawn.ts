import type { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { smallYoungGeneration } from '../archives/spawn.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import type { FillMessage, FoundFiles, PauseRequest, SnapshotJob, SnapshotReply } from './job.ts'
import { SnapshotCorrupt, SnapshotRefused, type SnapshotTotals } from './port.ts'

export interface ChildOptions {
  /** Descriptor of the archive to read; null for a pipe to write one to; `ignore` for none. */
  archive: number | 'ignore' | null
  /** Max resident bytes; above that it is ended. */
  memoryBytes: number
  signal: AbortSignal
  onPauseRequest?: (kind: PauseRequest['kind']) => void
  onPeak?: (bytes: number) => void
}

/** By default the heap grows to twice what 50,000 files need before garbage is collected. */
const smallHeap = [...smallYoungGeneration, '--optimize-for-size']

/** One child process for one job, ended by the signal, by its memory, or by its parent's end. */
export class SnapshotChild {
  readonly #child: JobChild<SnapshotJob, SnapshotReply>
  /** The reply; rejects with the reason when it ended without one, with `SnapshotCorrupt` or `NoSpaceLeft`. */
  readonly done: Promise<SnapshotTotals | null>
  /** Whether it failed on its own, and therefore cleaned up after itself. */
  cleaned = false

  constructor(job: SnapshotJob, { archive, memoryBytes, signal, onPauseRequest, onPeak }: ChildOptions) {
    this.#child = new JobChild('snapshots', {
      what: 'The snapshot',
      nodeArguments: smallHeap,
      descriptor: archive ?? 'pipe',
      signal,
      onMessage: message => {
        const notice = message as PauseRequest | FoundFiles
        if (notice.kind !== 'found') onPauseRequest?.(notice.kind)
        else if (Number.isSafeInteger(notice.files)) fileCount = notice.files
      },
    })
    let fileCount = 0
    // Another attempt would need as much.
    const large = () => new SnapshotRefused(tooLarge(fileCount))
    this.done = this.#child.run(job, { memoryBytes, large }).then(reply => this.#settle(reply, onPeak))
    this.done.catch(ignoreError('reported to the caller that awaits it'))
  }

  /** The output of the child. */
  get output(): Readable {
    return this.#child.output as Readable
  }

  confirmPause(): void {
    this.#child.send('paused')
  }

  tell(message: FillMessage): void {
    this.#child.send(message)
  }

  /** Ends the child for this reason. Ended already is success. */
  end(why: Error): void {
    this.#child.end(why)
  }

  #settle(reply: SnapshotReply, onPeak?: (bytes: number) => void): SnapshotTotals | null {
    this.cleaned = reply.kind !== 'done'
    onPeak?.(reply.peakBytes)
    if (reply.kind === 'done') return reply.snapshot
    if (reply.kind === 'refused') throw new SnapshotRefused(reply.message)
    if (reply.kind === 'corrupt') throw new SnapshotCorrupt(reply.message)
    throw failureOf(reply, 'The application has no disk space left to unpack the snapshot alongside its files.')
  }
}

/** `files` is how many it had found, of a folder that has more. */
function tooLarge(files: number): string {
  const many = files > 0 ? `: there are over ${files.toLocaleString('en-US')} of them` : ''
  return `The files are too many for a snapshot, which would require too much memory${many}.`
}
