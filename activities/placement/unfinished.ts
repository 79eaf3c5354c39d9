import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { manifestBefore, planOf, releaseNumbers } from './manifest.ts'
import type { Places } from './places.ts'
import type { PlaceRequest } from './port.ts'
import { keepWritten } from './settle.ts'
import { restore } from './undo.ts'

/**
 * Takes back, newest first, what releases since the last whole one have left half placed because their way back was given up. A later
 * push would take their files for the application's own and leave them there. What the application has made its own since then stays. Of
 * the last whole one, what the application had written before is kept, if its own settling never came.
 */
export async function takeBackUnfinished({ files, releases }: Places, request: PlaceRequest): Promise<void> {
  for (const number of releaseNumbers(releases).filter(other => other < request.release)) {
    const release = releases.tree(String(number))
    try {
      const earlier = { files, releases, release }
      const whole = standsWhole(release)
      if (release.stat(recordNames.journal)) {
        if (!whole) await takeBack(earlier, { ...request, release: number })
        await keepWritten(earlier, number, manifestBefore(releases, files, number))
        // What is placed from here on is not that release's to take back.
        release.remove(recordNames.journal)
      }
      if (whole) return
    } finally {
      release.close()
    }
  }
}

/** Whether all of a release was placed. A tree that a restore has brought counts as that: no journal tells what was there before. */
function standsWhole(release: Tree): boolean {
  const { manifest, first, before } = recordNames
  return [manifest, first, before].some(name => release.stat(name))
}

async function takeBack(places: Places, request: PlaceRequest): Promise<void> {
  const { path = '' } = planOf(places.release, '')
  await restore(places, { ...request, path }, { yielding: true })
}
