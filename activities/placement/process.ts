import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { type PlacingLimits, placingLimits } from '../../policy/apps/placing.ts'
import { entryPath } from '../../policy/archives/archive-names.ts'
import { failureOf, JobChild } from '../child-process/job-child.ts'
import { placeFirst, restoreFirst } from './first.ts'
import type { PlacementJob, PlacementReply } from './job.ts'
import { type Placement, PlacementRefused, type PlaceRequest } from './port.ts'
import { placingTurns } from './turns.ts'

/**
 * Placing by a child process with the application's own rights, one for each request; killed beyond its limits, which begin once it has
 * a place. Rejects where it had none within as many seconds.
 */
export function placement(limits: Pick<PlacingLimits, 'seconds' | 'memoryBytes'> = placingLimits): Placement {
  async function run(act: PlacementJob['act'], request: PlaceRequest) {
    const leave = await placingTurns.enter(request.account ?? request.volume, limits.seconds * 1000)
    if (!leave) throw new Error('Too many files of other applications are being placed on this host.')
    return runChild(act, request).finally(leave)
  }

  async function runChild(act: PlacementJob['act'], asked: PlaceRequest) {
    const request = { ...asked, path: folderPath(asked.path) }
    const child = new JobChild<PlacementJob, PlacementReply>('placement', { what: 'Placing the files' })
    const reply = await child.run({ act, request }, { ...limits, large: () => overMemory(act) })
    if (reply.kind === 'failed') throw failureOf(reply, noSpace)
    // Their parent belongs to the host; a folder that is not empty is swept another time.
    for (const release of reply.emptied)
      await rmdir(join(request.volume, 'releases', String(release))).catch(ignoreError('it is swept later'))
    return reply
  }

  return {
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
  }
}

/** A path below the application's folder, as it is kept. Throws an Error for one that leads out of it. */
export function folderPath(path: string): string {
  const place = entryPath(path)
  if ('code' in place) throw new Error(`"${path}" is not a folder of the application.`)
  return place.path
}

const noSpace = 'The application has no disk space left to place the files of the release.'

/** Placing may fail for good; a way back, and what comes after, is tried again. */
function overMemory(act: PlacementJob['act']): Error {
  const words = 'The application has too many files to place the release.'
  return act === 'place' ? new PlacementRefused(words) : new Error(words)
}
