import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { type PlacingLimits, placingLimits } from '../../policy/apps/placing-limits.ts'
import { entryPath } from '../../policy/archives/archive-names.ts'
import { removeWhole } from '../app-files/trash.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import { Spare } from '../child-process/spare.ts'
import { placeFirst, restoreFirst } from './first.ts'
import type { Emptied, PlacementJob, PlacementReply } from './job.ts'
import { type Placement, PlacementRefused, type PlacementRequest } from './port.ts'
import { placingSlots } from './slots.ts'

export interface PlacementOptions extends Pick<PlacingLimits, 'seconds' | 'memoryBytes'> {
  /** Reports to operators what no one else sees. */
  warn?(facts: object, message: string): void
  /** Pause after a job until a spare child is started for the next one, in ms; null = there is none. */
  spareAfterMs: number | null
}

/**
 * Placing by child processes with the application's own rights, one per request; killed when it exceeds its limits.
 */
export function placement(options: Partial<PlacementOptions> = {}): Placement & { close(): void } {
  const { spareAfterMs, warn, ...limits } = { ...placingLimits, spareAfterMs: null, ...options }
  const start = () => new JobChild<PlacementJob, PlacementReply>('placement', { what: 'Placing the files' })
  const spare = new Spare(start)
  let working = 0
  if (spareAfterMs !== null) spare.prepare(spareAfterMs)

  async function run(act: PlacementJob['act'], input: PlacementRequest) {
    const request = { ...input, path: folderPath(input.path) }
    const child = spare.take() ?? start()
    working += 1
    const reply = await child.run({ act, request }, { ...limits, large: () => overMemory(act) }).finally(() => {
      working -= 1
      if (working === 0 && spareAfterMs !== null) spare.prepare(spareAfterMs)
    })
    if (reply.kind === 'failed') throw failureOf(reply, noSpace)
    for (const emptied of reply.emptied) await removeEmptied(request.volume, emptied)
    return reply
  }

  /** Its parent belongs to the host, which may also remove what the application may not. */
  async function removeEmptied(volume: string, { release, fault }: Emptied): Promise<void> {
    const folder = join(volume, 'releases', String(release))
    const isRemoved = await rmdir(folder).then(
      () => true,
      error => codeOf(error) === 'ENOENT',
    )
    if (isRemoved) return
    warn?.({ volume, release, fault }, 'placement: the application could not remove all files of a release')
    await removeWhole(volume, folder)
  }

  return {
    inSlot: async (account, signal, work) => {
      const leave = await placingSlots.enterUntil(account, signal)
      return work().finally(leave)
    },
    place: async request => (!request.swap && (await placeFirst(request))) || (await run('place', request)).placed,
    restore: async request => {
      if (request.swap || !(await restoreFirst(request))) await run('restore', request)
    },
    settle: async request => {
      await run('settle', request)
    },
    discard: async request => {
      if (!request.swap) await restoreFirst(request)
      await run('discard', request)
    },
    close: () => spare.close(),
  }
}

/** Normalizes a path below the application's folder. Throws an Error for one that leads out of it. */
export function folderPath(path: string): string {
  const entry = entryPath(path)
  if ('code' in entry) throw new Error(`"${path}" is not a folder of the application.`)
  return entry.path
}

const noSpace = 'The application has no disk space left to place the files of the release.'

/** Placing may fail permanently; an undo and later steps are retried. */
function overMemory(act: PlacementJob['act']): Error {
  const message = 'The application has too many files to place the release.'
  return act === 'place' ? new PlacementRefused(message) : new Error(message)
}
