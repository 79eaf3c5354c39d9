import { renameSync } from 'node:fs'
import { setImmediate as breath } from 'node:timers/promises'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { Journal } from './journal.ts'
import { isAsBrought, type Manifest, manifestBefore, readManifest, releaseNumbers } from './manifest.ts'
import { withOpenings } from './openings.ts'
import { keep, type Places, replacedAs } from './places.ts'
import type { PlaceRequest } from './port.ts'
import { restore } from './undo.ts'

/**
 * Ends a placing for good: what the application wrote and the release replaced is kept where its owner finds it, the rest of
 * the old is thrown away. Resolves to the numbers of old releases whose folders are empty now.
 */
export function settle(places: Places, request: PlaceRequest): Promise<number[]> {
  return withOpenings(places, () => settleOpened(places, request))
}

async function settleOpened(places: Places, { release: number }: PlaceRequest): Promise<number[]> {
  const { files, releases, release } = places
  if (!readManifest(releases, files, number)) return []
  const before = manifestBefore(releases, files, number)
  if (release.stat(recordNames.journal)) await keepWritten(places, number, before)
  if (release.stat(recordNames.before)) renameSync(release.at(recordNames.before), release.at(recordNames.dropped))
  for (const name of [recordNames.replaced, recordNames.journal, 'source', recordNames.plan, recordNames.dropped])
    release.remove(name)
  const kept = withDependencies(releases, [number, before.release])
  const old = releaseNumbers(releases).filter(other => other < number && !kept.has(other))
  for (const other of old) await empty(releases, other)
  return old
}

/** These releases, and the earlier ones whose installed dependencies they use (`prepared.json`, activities/releases/files.ts). */
function withDependencies(releases: Tree, numbers: (number | null)[]): Set<number | null> {
  const kept = new Set(numbers)
  for (const release of numbers) {
    const prepared = release === null ? null : releases.read(`${release}/prepared.json`)
    if (prepared) kept.add(JSON.parse(prepared).dependenciesOf ?? null)
  }
  return kept
}

/** Takes a release back and throws away all that it brought. Resolves to its number. */
export async function discard(places: Places, request: PlaceRequest): Promise<number[]> {
  await restore(places, request)
  await empty(places.releases, request.release)
  return [request.release]
}

async function empty(releases: Tree, number: number): Promise<void> {
  const folder = releases.tree(String(number))
  folder.unlock()
  for (const name of folder.list()) folder.remove(name)
  folder.close()
  await breath()
}

/** Keeps what the application wrote and a release replaced where its owner finds it. */
export async function keepWritten(places: Places, number: number, before: Manifest): Promise<void> {
  const { files, release } = places
  const journal = new Journal(release)
  journal.close()
  // Two attempts at the same change may have set the same file aside twice.
  const seen = new Set<number>()
  for (const [line, [, path]] of journal.changes.entries()) {
    const stats = release.stat(replacedAs(line))
    // What was only linked aside lies where it was.
    if (!stats || seen.has(stats.ino) || files.stat(path)?.ino === stats.ino) continue
    seen.add(stats.ino)
    if (!isAllBrought(release, replacedAs(line), path, before)) keep(places, number, path, [release, replacedAs(line)])
    if (line % 256 === 0) await breath()
  }
}

/** Whether a file, or everything in a folder, is as releases brought it. `name` is where it lies, `path` where it lay. */
function isAllBrought(tree: Tree, name: string, path: string, before: Manifest): boolean {
  const stats = tree.stat(name)
  if (!stats) return true
  if (!stats.isDirectory()) return isAsBrought(tree, name, stats, before.files.get(path))
  return tree.list(name).every(inner => isAllBrought(tree, `${name}/${inner}`, `${path}/${inner}`, before))
}
