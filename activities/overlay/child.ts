import { Tree } from '../../lib/folders/tree.ts'
import { answerJob, becomeOwner, failedReply } from '../child-process/child-life.ts'
import { layOver } from './copy.ts'
import { type OverlayJob, OverlayRefused, type OverlayReply } from './port.ts'

// The process that reads an application's folder, possibly while the application changes it. It has only the application's rights
// and an empty environment, does one job and ends.

async function carryOut({ request, limits }: OverlayJob): Promise<OverlayReply> {
  process.umask(0)
  const volume = new Tree(request.volume)
  const places = {
    files: new Tree(volume.at('files'), { readOnly: true }),
    release: volume.tree(`releases/${request.release}`),
  }
  becomeOwner(request.owner, [places.files.root, places.release.root])
  return { kind: 'done', ...(await layOver(places, request.path, limits)) }
}

function failureReply(error: unknown): OverlayReply {
  return error instanceof OverlayRefused ? { kind: 'refused', message: error.message } : failedReply(error)
}

answerJob((job: OverlayJob) => carryOut(job).catch(failureReply))
