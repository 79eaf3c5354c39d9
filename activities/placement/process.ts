import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { entryPath } from '../../policy/archives/archive-names.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import { NoSpaceLeft } from '../containers/port.ts'
import { placeFirst, restoreFirst } from './first.ts'
import type { PlacementJob, PlacementReply } from './job.ts'
import type { Placement, PlaceRequest } from './port.ts'

/** Placing by a child process with the application's own rights, one for each request; killed after `seconds`. */
export function placement({ seconds = 600 } = {}): Placement {
  async function run(act: PlacementJob['act'], asked: PlaceRequest) {
    const request = { ...asked, path: folderPath(asked.path) }
    const reply = await ask({ act, request }, seconds)
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

/** Rejects when the child ends without an answer. */
function ask(job: PlacementJob, seconds: number): Promise<PlacementReply> {
  return new Promise((resolve, reject) => {
    const child = startChild('placement', ['ignore', 'ignore', 'inherit', 'ipc'])
    const stopWaiting = giveWayLater(child)
    const deadline = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
    let reply: PlacementReply | null = null
    child.once('error', reject)
    child.once('message', message => {
      reply = message as PlacementReply
    })
    // Not at 'exit': its last message may still be on the way then.
    child.once('close', (code, signal) => {
      stopWaiting()
      clearTimeout(deadline)
      if (reply) resolve(reply)
      else reject(new Error(`Placing the files was cut off by ${signal ?? `exit code ${code}`}.`))
    })
    child.send(job, () => {})
  })
}

function problem({ code, message }: PlacementReply & { kind: 'failed' }): Error {
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new NoSpaceLeft('The application has no disk space left to place the files of the release.')
  return Object.assign(new Error(message), { code })
}
