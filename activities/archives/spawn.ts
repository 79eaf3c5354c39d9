import { ignoreError } from '../../lib/async/ignore-error.ts'
import { JobChild } from '../child-process/job-child.ts'
import { MemoryGroup, residentBytes } from '../child-process/memory.ts'
import type { ArchiveJob, ArchiveReady, ArchiveReply } from './job.ts'

/** Why a child ended without a reply. */
export class ChildEnded extends Error {
  override name = 'ChildEnded'
  constructor(
    override readonly cause: 'memory' | 'deadline' | 'crash',
    message: string,
  ) {
    super(message)
  }
}

export interface ChildLimits {
  /** What it may take beyond its size when idle. */
  memoryBytes: number
  seconds: number
}

/** Descriptor at which a child finds the archive that was given when it was started. */
export const inheritedArchive = 4

/** Left to itself, the young generation takes up to 48 MB for the short-lived pieces of a long archive. */
export const smallYoungGeneration = ['--max-semi-space-size=1'] as const

/** A child process for one archive; see `JobChild`. */
export class ArchiveChild {
  readonly #child: JobChild<ArchiveJob, ArchiveReply>
  readonly #group: MemoryGroup | null
  /** Whether it can open this process's descriptors; rejects when it did not start. */
  readonly ready: Promise<boolean>
  idleBytes = 0

  /** `archive` is inherited when it is known already. */
  constructor(archive: number | null) {
    let isReady!: (ready: ArchiveReady) => void
    const ready = new Promise<ArchiveReady>(resolve => {
      isReady = resolve
    })
    this.#child = new JobChild('archives', {
      what: 'The archive',
      nodeArguments: smallYoungGeneration,
      descriptor: archive ?? 'ignore',
      onWord: word => isReady(word as ArchiveReady),
      // Nothing here sends SIGKILL without a reason: it was the kernel, for the group's limit.
      cutOff: how => new ChildEnded(how === 'SIGKILL' ? 'memory' : 'crash', `it ended by ${how}`),
    })
    const { done, process } = this.#child
    this.#group = process.pid === undefined ? null : MemoryGroup.of(process.pid)
    const removeGroup = () => this.#group?.remove()
    done.then(removeGroup, removeGroup)
    this.ready = Promise.race([ready, done.then(() => Promise.reject(new Error('no job')))]).then(
      ({ reachesParent }) => {
        this.idleBytes = residentBytes(process.pid!)
        return reachesParent
      },
    )
    this.ready.catch(ignoreError('reported to the caller that awaits it'))
  }

  /** Rejects with `ChildEnded` when it passes its limits or dies. */
  async run(job: ArchiveJob, { memoryBytes, seconds }: ChildLimits): Promise<ArchiveReply> {
    await this.ready
    const limit = this.idleBytes + memoryBytes
    // Written pages count in a group too, and a slow disk must not look like a hungry archive: a group for reading only.
    if (job.kind === 'inspect') this.#group?.limit(limit)
    return this.#child.run(job, {
      memoryBytes: limit,
      large: () => new ChildEnded('memory', 'it took too much memory'),
      seconds,
      late: () => new ChildEnded('deadline', `it took over ${seconds} s`),
    })
  }

  kill(): void {
    this.#child.end(new ChildEnded('crash', 'it was ended'))
  }

  /** A child that only waits does not keep this process alive; one that works does. */
  hold(working: boolean): this {
    const { process } = this.#child
    for (const handle of [process, process.channel]) {
      if (working) handle?.ref()
      else handle?.unref()
    }
    return this
  }
}
