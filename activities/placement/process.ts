import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type PlacingLimits, placingLimits } from '../../policy/apps/placing.ts'
import { entryPath } from '../../policy/archives/archive-names.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import { watchResident } from '../child-process/memory.ts'
import { NoSpaceLeft } from '../containers/port.ts'
import { placeFirst, restoreFirst } from './first.ts'
import type { PlacementJob, PlacementReply } from './job.ts'
import { type Placement, PlacementRefused, type PlaceRequest } from './port.ts'

/** Placing by a child process with the application's own rights, one for each request; killed beyond its limits. */
export function placement(limits: Pick<PlacingLimits, 'seconds' | 'memoryBytes'> = placingLimits): Placement {
  async function run(act: PlacementJob['act'], asked: PlaceRequest) {
    const request = { ...asked, path: folderPath(asked.path) }
    const reply = await ask({ act, request }, limits)
    if (reply.kind === 'failed') throw problem(reply)
    // Their parent belongs to the host; a folder that is not empty is swept another time.
    for (const release of reply.emptied) await rmdir(join(request.volume, 'releases', String(release))).catch(() => {})
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

/** Rejects when the child ends without an answer, and when it took too much memory. */
function ask(
  job: PlacementJob,
  { seconds, memoryBytes }: Pick<PlacingLimits, 'seconds' | 'memoryBytes'>,
): Promise<PlacementReply> {
  return new Promise((resolve, reject) => {
    const child = startChild('placement', ['ignore', 'ignore', 'inherit', 'ipc'])
    const stopWaiting = giveWayLater(child)
    const deadline = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
    let reply: PlacementReply | null = null
    let tooLarge = false
    const onOver = () => {
      tooLarge = true
      child.kill('SIGKILL')
    }
    const unwatch = child.pid === undefined ? () => {} : watchResident(child.pid, memoryBytes, onOver)
    child.once('error', reject)
    child.once('message', message => {
      reply = message as PlacementReply
    })
    // Not at 'exit': its last message may still be on the way then.
    child.once('close', (code, signal) => {
      stopWaiting()
      unwatch()
      clearTimeout(deadline)
      if (reply) resolve(reply)
      else if (tooLarge) reject(overMemory(job.act))
      else reject(new Error(`Placing the files was cut off by ${signal ?? `exit code ${code}`}.`))
    })
    child.send(job, () => {})
  })
}

/** Placing may fail for good; a way back, and what comes after, is tried again. */
function overMemory(act: PlacementJob['act']): Error {
  const words = 'The application has too many files to place the release.'
  return act === 'place' ? new PlacementRefused(words) : new Error(words)
}

function problem({ code, message }: PlacementReply & { kind: 'failed' }): Error {
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new NoSpaceLeft('The application has no disk space left to place the files of the release.')
  return Object.assign(new Error(message), { code })
}
