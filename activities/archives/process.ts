import type { FileHandle } from 'node:fs/promises'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { MiB } from '../../lib/bytes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { archiveSlots } from '../../policy/archives/archive-rules.ts'
import { CodedError } from '../../policy/errors.ts'
import { failureOf } from '../child-process/job-child.ts'
import { removeAbandonedGroups } from '../child-process/memory.ts'
import { Spare, spareAfterMs } from '../child-process/spare.ts'
import type { ArchiveJob, ArchiveReply } from './job.ts'
import { ArchiveRefused, type Archives, type Inspection, type InspectOptions, type UnpackOptions } from './port.ts'
import { ArchiveChild, ChildEnded, inheritedArchive } from './spawn.ts'

export interface ArchiveOptions {
  /** Children that work concurrently; one per account, and accounts alternate. */
  atOnce?: number
  /** How long an inspection waits for a slot before `UPLOAD_BUSY`. */
  waitMs?: number
  /** Max memory of a child above its size when idle. */
  memoryMb?: number
  inspectSeconds?: number
  unpackSeconds?: number
  spareAfterMs?: number
  /** Receives the size of each child when idle and at its peak, and whether it was a spare. */
  observe?: (child: { kind: ArchiveJob['kind']; waited: boolean; idleBytes: number; peakBytes: number }) => void
}

const { perSubject, ...places } = archiveSlots
const defaults = { ...places, spareAfterMs }

type Defaults = Required<Omit<ArchiveOptions, 'observe'>>

type Done = Extract<ArchiveReply, { kind: 'done' }>

/** Handles each archive in its own child process; see `Archives`. */
export function archives(options: ArchiveOptions = {}): Archives {
  return new ArchiveProcess({ ...defaults, ...options })
}

class ArchiveProcess implements Archives {
  readonly #options: Defaults & ArchiveOptions
  readonly #slots: FairSlots
  readonly #working = new Set<ArchiveChild>()
  readonly #spare = new Spare(() => new ArchiveChild(null))
  #isClosed = false

  constructor(options: Defaults & ArchiveOptions) {
    this.#options = options
    this.#slots = new FairSlots({ atOnce: options.atOnce, perSubject })
    removeAbandonedGroups()
    this.#spare.prepare(0)
  }

  /** Rejects with `UPLOAD_BUSY` when too many are being inspected, or when this one exceeds its time. */
  async inspect(file: FileHandle, options: InspectOptions): Promise<Inspection> {
    const leave = await this.#slots.enter(options.account, this.#options.waitMs)
    if (!leave) throw new CodedError('UPLOAD_BUSY', undefined, 5)
    try {
      const { config, entries, bytes } = await this.#run(file, archive => ({
        kind: 'inspect',
        archive,
        configNames: options.configNames,
        config: options.config,
      }))
      return { ok: true, config, entries, bytes }
    } catch (error) {
      if (error instanceof ArchiveRefused) return { ok: false, code: error.code, message: error.message }
      if (error instanceof ChildEnded && error.cause === 'deadline') throw new CodedError('UPLOAD_BUSY', undefined, 30)
      throw error
    } finally {
      leave()
    }
  }

  async unpack(
    file: FileHandle,
    folder: string,
    owner: Owner | null,
    options: UnpackOptions = {},
  ): Promise<{ entries: number; bytes: number }> {
    const leave = await this.#slots.enter(options.account ?? folder)
    try {
      const own = options.own ?? false
      const { entries, bytes } = await this.#run(file, archive => ({ kind: 'unpack', archive, folder, owner, own }))
      return { entries, bytes }
    } finally {
      leave?.()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#spare.close()
    for (const child of this.#working) child.end()
  }

  async #run(file: FileHandle, jobOf: (archive: ArchiveJob['archive']) => ArchiveJob): Promise<Done> {
    const spare = this.#spare.take()
    // A spare that died meanwhile is replaced.
    const reaches = await spare?.ready.catch(() => null)
    const warm = spare && reaches ? spare : null
    if (!warm) spare?.end()
    // The system denies a child access to its parent's descriptors.
    if (reaches === false) this.#spare.close()
    const job = jobOf(warm ? { parents: file.fd } : { inherited: inheritedArchive })
    try {
      return await this.#carryOut(warm ?? new ArchiveChild(file.fd), job)
    } catch (error) {
      if (error instanceof ChildEnded && job.kind === 'unpack')
        await this.#carryOut(new ArchiveChild(null), { ...job, kind: 'clear', archive: null })
      throw error instanceof ChildEnded && error.cause === 'memory'
        ? new ArchiveRefused('INVALID_FILE', 'Reading the archive requires too much memory.')
        : error
    }
  }

  async #carryOut(child: ArchiveChild, job: ArchiveJob): Promise<Done> {
    if (this.#isClosed) {
      child.end()
      throw new Error('Archives are closed.')
    }
    this.#working.add(child)
    try {
      const { memoryMb, inspectSeconds, unpackSeconds } = this.#options
      const seconds = job.kind === 'inspect' ? inspectSeconds : unpackSeconds
      // Clearing reads no untrusted bytes, and cleans up after a child that took too much memory.
      const memoryBytes = job.kind === 'clear' ? Number.POSITIVE_INFINITY : memoryMb * MiB
      return settle(await child.run(job, { memoryBytes, seconds }), reply =>
        this.#options.observe?.({
          kind: job.kind,
          waited: job.archive !== null && 'parents' in job.archive,
          idleBytes: child.idleBytes,
          peakBytes: reply.peakBytes,
        }),
      )
    } finally {
      this.#working.delete(child)
      if (this.#working.size === 0) this.#spare.prepare(this.#options.spareAfterMs)
    }
  }
}

function settle(reply: ArchiveReply, observe: (reply: ArchiveReply) => void): Done {
  observe(reply)
  if (reply.kind === 'done') return reply
  if (reply.kind === 'refused') throw new ArchiveRefused(reply.code, reply.message)
  throw failureOf(reply, 'The application has no disk space left to unpack the archive.')
}
