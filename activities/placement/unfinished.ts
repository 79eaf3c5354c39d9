import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { manifestBefore, releaseNumbers } from './manifest.ts'
import type { Places } from './places.ts'
import type { PlacementRequest } from './port.ts'
import { keepWritten } from './settle.ts'
import { planOf } from './sources.ts'
import { restore } from './undo.ts'

/**
 * Undoes, newest first, the releases since the last complete one that are still half placed because their undo was given up. A later
 * push would treat their files as the application's own and leave them there. What the application has changed since stays. For the
 * last complete one, moves what the application had written before to where its owner finds it, if it was never settled.
 */
export async function undoUnfinished({ files, releases }: Places, request: PlacementRequest): Promise<void> {
  for (const number of releaseNumbers(releases).filter(other => other < request.release)) {
    const release = releases.tree(String(number))
    try {
      const earlier = { files, releases, release }
      const complete = isComplete(release)
      if (release.stat(recordNames.journal)) {
        if (!complete) await undo(earlier, { ...request, release: number })
        await keepWritten(earlier, number, manifestBefore(releases, files, number))
        // That release must not undo what is placed from here on.
        release.remove(recordNames.journal)
      }
      if (complete) return
    } finally {
      release.close()
    }
  }
}

/** Whether all of a release was placed. A restored tree counts as complete: no journal says what was there before. */
function isComplete(release: Tree): boolean {
  const { manifest, first, before } = recordNames
  return [manifest, first, before].some(name => release.stat(name))
}

async function undo(places: Places, request: PlacementRequest): Promise<void> {
  const { path = '' } = planOf(places.release, '')
  await restore(places, { ...request, path }, { sparesOwnChanges: true })
}
