import { renameSync } from 'node:fs'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Tree } from '../../lib/folders/tree.ts'
import { type Emptied, recordNames } from './job.ts'
import { Journal } from './journal.ts'
import { type Manifest, manifestBefore, readManifest, releaseNumbers } from './manifest.ts'
import { withOpenings } from './openings.ts'
import { moveToReplaced, type Places, replacedAs } from './places.ts'
import type { PlacementRequest } from './port.ts'
import { isUnchanged } from './sources.ts'
import { restore } from './undo.ts'

/**
 * Makes a placing final: versions that the application wrote and the release replaced are moved where their owner finds them, the rest
 * of the old files is removed. Resolves to the old releases whose folders were emptied.
 */
export function settle(places: Places, request: PlacementRequest): Promise<Emptied[]> {
  return withOpenings(places, () => settleOpened(places, request))
}

async function settleOpened(places: Places, { release: number }: PlacementRequest): Promise<Emptied[]> {
  const { files, releases, release } = places
  if (!readManifest(releases, files, number)) return []
  const before = manifestBefore(releases, files, number)
  if (release.stat(recordNames.journal)) await keepWritten(places, number, before)
  if (release.stat(recordNames.before)) renameSync(release.at(recordNames.before), release.at(recordNames.dropped))
  for (const name of [recordNames.replaced, recordNames.journal, 'source', recordNames.plan, recordNames.dropped])
    release.remove(name)
  // Newer ones are being prepared.
  const numbers = releaseNumbers(releases)
  const retained = withLenders(releases, [before.release, ...numbers.filter(other => other >= number)])
  const old = numbers.filter(other => other < number && !retained.has(other))
  const emptied: Emptied[] = []
  for (const other of old) emptied.push(await empty(releases, other))
  return emptied
}

/** These releases, and those whose installed dependencies they use (`prepared.json`, activities/releases/files.ts). */
function withLenders(releases: Tree, numbers: readonly number[]): Set<number | null> {
  const lenders = numbers.map(release => {
    const prepared = releases.read(`${release}/${marker}`)
    return prepared ? (JSON.parse(prepared).dependenciesOf ?? null) : null
  })
  return new Set([...numbers, ...lenders])
}

const marker = 'prepared.json'

/** Undoes a release and removes all that it brought, apart from dependencies that another one uses: those go when it is settled as an old one. */
export async function discard(places: Places, request: PlacementRequest): Promise<Emptied[]> {
  await restore(places, request)
  const { releases } = places
  const { release } = request
  const others = releaseNumbers(releases).filter(other => other !== release)
  const isLent = withLenders(releases, others).has(release)
  const emptied = await empty(releases, release, isLent ? [marker, 'dependencies'] : [])
  return isLent ? [] : [emptied]
}

/** Never rejects: what the application may not remove is left to the host, and keeps no other folder. */
async function empty(releases: Tree, release: number, except: readonly string[] = []): Promise<Emptied> {
  try {
    const folder = releases.tree(String(release))
    folder.unlock()
    // First, because without its sections it could not be read.
    folder.remove(recordNames.manifest)
    // By one step: what is half removed must not look like something that another release can use.
    folder.remove(recordNames.dropped)
    if (!except.includes('dependencies') && folder.stat('dependencies'))
      renameSync(folder.at('dependencies'), folder.at(recordNames.dropped))
    for (const name of folder.list()) if (!except.includes(name)) folder.remove(name)
    folder.close()
    await yieldToEventLoop()
    return { release, fault: null }
  } catch (error) {
    return { release, fault: (error as Error).message }
  }
}

/** Moves what the application wrote and a release replaced to where its owner finds it. */
export async function keepWritten(places: Places, number: number, before: Manifest): Promise<void> {
  const { files, release } = places
  const journal = new Journal(release)
  journal.close()
  // Two attempts at the same change may have set the same file aside twice.
  const seen = new Set<number>()
  for (const [line, [, path]] of journal.changes.entries()) {
    const stats = release.stat(replacedAs(line))
    // A file that was only linked aside is still in its place.
    if (!stats || seen.has(stats.ino) || files.stat(path)?.ino === stats.ino) continue
    seen.add(stats.ino)
    if (!isAllUnchanged(release, replacedAs(line), path, before))
      moveToReplaced(places, number, path, [release, replacedAs(line)])
    if (line % 256 === 0) await yieldToEventLoop()
  }
}

/** Whether a file, or everything in a folder, is as releases brought it. `name` is its current path, `path` its original one. */
function isAllUnchanged(tree: Tree, name: string, path: string, before: Manifest): boolean {
  const stats = tree.stat(name)
  if (!stats) return true
  if (!stats.isDirectory()) return isUnchanged(tree, name, stats, before.file(path))
  return tree.list(name).every(inner => isAllUnchanged(tree, `${name}/${inner}`, `${path}/${inner}`, before))
}
