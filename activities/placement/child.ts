import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tree } from '../../lib/folders/tree.ts'
import { answerJob, becomeOwner, endWithParent, failedReply } from '../child-process/child-life.ts'
import type { PlacementJob, PlacementReply } from './job.ts'
import { noFiles } from './manifest.ts'
import { place } from './place.ts'
import { discard, settle } from './settle.ts'
import { recordSwapped, swapBack, swapIn } from './swap.ts'
import { restore } from './undo.ts'

// The process that changes an application's folder, possibly while the application changes it too. It has only the
// application's rights, does one job and ends.

const lockSeconds = 30

async function carryOut({ act, request }: PlacementJob): Promise<Omit<PlacementReply & { kind: 'done' }, 'kind'>> {
  process.umask(0)
  const volume = new Tree(request.volume)
  await lock(volume)
  // Nothing of the release is here: it was never prepared, or is removed already.
  if (act !== 'place' && !volume.stat(`releases/${request.release}`)) return { placed: noFiles(), emptied: [] }
  if (request.swap && act === 'place') swapIn(volume, request)
  if (request.swap && (act === 'restore' || act === 'discard')) swapBack(volume, request)
  const releases = volume.tree('releases')
  const places = { files: volume.tree('files'), releases, release: releases.tree(String(request.release)) }
  becomeOwner(request.owner, [places.files.root, places.release.root])
  if (act === 'place')
    return { placed: request.swap ? recordSwapped(places, request) : await place(places, request), emptied: [] }
  if (act === 'restore') await restore(places, request)
  const emptied =
    act === 'settle' ? await settle(places, request) : act === 'discard' ? await discard(places, request) : []
  return { placed: noFiles(), emptied }
}

/**
 * One process per volume at a time: a killed host's child may still be ending when the next one starts. The name of an abstract
 * socket is free as soon as its process has ended, and no container can take it.
 */
async function lock(volume: Tree): Promise<void> {
  const { dev, ino } = volume.root
  const path = `\0berth-placement-${dev}-${ino}`
  for (const deadline = Date.now() + lockSeconds * 1000; ; await sleep(50)) {
    const error = await new Promise<Error | null>(resolve => {
      const server = createServer().once('error', resolve)
      server.listen(path, () => resolve(null))
    })
    if (!error) return
    if (Date.now() > deadline) throw error
  }
}

endWithParent()
answerJob(
  (job: PlacementJob): Promise<PlacementReply> => carryOut(job).then(done => ({ kind: 'done', ...done }), failedReply),
)
