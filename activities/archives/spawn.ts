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
  /** Max memory above its size when idle. */
  memoryBytes: number
  seconds: number
}

/** Descriptor of the archive in a child that was started with it. */
export const inheritedArchive = 4

/** By default the young generation takes up to 48 MB for the short-lived pieces of a long archive. */
export const smallYoungGeneration = ['--max-semi-space-size=1'] as const

/** A child process for one archive; see `JobChild`. */
export class ArchiveChild {
  readonly #child: JobChild<ArchiveJob, ArchiveReply>
  readonly #group: MemoryGroup | null
  /** Whether it can open this process's descriptors; rejects when it did not start. */
  readonly ready: Promise<boolean>
  idleBytes = 0

  /** `archive` is a descriptor to inherit; null for a spare. */
  constructor(archive: number | null) {
    let isReady!: (ready: ArchiveReady) => void
    const ready = new Promise<ArchiveReady>(resolve => {
      isReady = resolve
    })
    this.#child = new JobChild('archives', {
      what: 'The archive',
      nodeArguments: smallYoungGeneration,
      descriptor: archive ?? 'ignore',
      onMessage: message => isReady(message as ArchiveReady),
      // Without a reason from here, a SIGKILL came from the kernel, for the group's limit.
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

  /** Rejects with `ChildEnded` when it exceeds its limits or dies. */
  async run(job: ArchiveJob, { memoryBytes, seconds }: ChildLimits): Promise<ArchiveReply> {
    await this.ready
    const limit = this.idleBytes + memoryBytes
    // The group limits only inspections: written pages count in it too, and a slow disk must not look like a large archive.
    if (job.kind === 'inspect') this.#group?.limit(limit)
    return this.#child.run(job, {
      memoryBytes: limit,
      large: () => new ChildEnded('memory', 'it took too much memory'),
      seconds,
      late: () => new ChildEnded('deadline', `it took over ${seconds} s`),
    })
  }

  get isAlive(): boolean {
    return this.#child.isAlive
  }

  end(): void {
    this.#child.end(new ChildEnded('crash', 'it was ended'))
  }

  hold(isWorking: boolean): this {
    this.#child.hold(isWorking)
    return this
  }
}
