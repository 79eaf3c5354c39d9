import type { ChildProcess, StdioOptions } from '../../lib/child-process.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import { MemoryGroup, residentBytes, watchResident } from '../child-process/memory.ts'
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

/** One child process for one job. It holds nothing of ours: empty environment, no descriptors but the archive's. */
export class ArchiveChild {
  readonly #process: ChildProcess
  readonly #group: MemoryGroup | null
  readonly #ended: Promise<string>
  /** Whether it can open this process's descriptors; rejects when it did not start. */
  readonly ready: Promise<boolean>
  idleBytes = 0
  #over: ChildEnded | null = null

  /** `archive` is inherited when it is known already. */
  constructor(archive: number | null) {
    const stdio: StdioOptions = ['ignore', 'ignore', 'inherit', 'ipc', archive ?? 'ignore']
    this.#process = startChild('archives', stdio, smallYoungGeneration)
    const { pid } = this.#process
    this.#group = pid === undefined ? null : MemoryGroup.of(pid)
    this.#ended = new Promise(resolve => {
      this.#process.once('error', error => resolve(error.message))
      // Not `exit`, which on a busy machine comes before the reply that the child sent last has been read.
      this.#process.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`))
    })
    this.#ended.then(() => this.#group?.remove())
    this.ready = this.#next<ArchiveReady>().then(({ reachesParent }) => {
      this.idleBytes = residentBytes(pid!)
      return reachesParent
    })
    this.ready.catch(() => {})
  }

  /** Rejects with `ChildEnded` when it passes its limits or dies. */
  async run(job: ArchiveJob, limits: ChildLimits): Promise<ArchiveReply> {
    await this.ready
    const memory = () => this.#end('memory', 'it took too much memory')
    const limit = this.idleBytes + limits.memoryBytes
    // Written pages count in a group too, and a slow disk must not look like a hungry archive: a group for reading only.
    if (job.kind === 'inspect') this.#group?.limit(limit)
    const unwatch = watchResident(this.#process.pid!, limit, memory)
    const stopWaiting = giveWayLater(this.#process)
    const deadline = setTimeout(() => this.#end('deadline', `it took over ${limits.seconds} s`), limits.seconds * 1000)
    try {
      const reply = this.#next<ArchiveReply>()
      this.#process.send(job, () => {})
      return await reply
    } finally {
      unwatch()
      stopWaiting()
      clearTimeout(deadline)
      await this.#ended
    }
  }

  kill(): void {
    this.#end('crash', 'it was ended')
  }

  /** A child that only waits does not keep this process alive; one that works does. */
  hold(working: boolean): this {
    for (const handle of [this.#process, this.#process.channel]) {
      if (working) handle?.ref()
      else handle?.unref()
    }
    return this
  }

  #end(cause: ChildEnded['cause'], message: string): void {
    this.#over = new ChildEnded(cause, message)
    this.#process.kill('SIGKILL')
  }

  #next<T>(): Promise<T> {
    const message = new Promise<T>(resolve => this.#process.once('message', resolve as (message: unknown) => void))
    const ended = this.#ended.then(how => {
      // Nobody here sends SIGKILL without saying why: it was the kernel, for the group's limit.
      throw this.#over ?? new ChildEnded(how === 'SIGKILL' ? 'memory' : 'crash', `it ended by ${how}`)
    })
    return Promise.race([message, ended])
  }
}
