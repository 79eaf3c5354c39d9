import { mkdirSync, renameSync } from 'node:fs'
import { nameBytes } from '../../lib/folders/disk-names.ts'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { recordNames } from './job.ts'
import { type Change, Journal } from './journal.ts'
import { type Brought, listedNames, type Manifest, manifestBefore, readManifest, writeManifest } from './manifest.ts'
import { type Openings, withOpenings } from './openings.ts'
import { type Places, removeEmpty, setAside, sourceOf } from './places.ts'
import type { PlacedFiles, PlacementRequest } from './port.ts'
import { describe, isUnchanged, planOf, type ReleasedFile, type Sources } from './sources.ts'
import { undoUnfinished } from './unfinished.ts'

/** Max attempts at one change that the application keeps obstructing. */
const maxAttempts = 20

/** Places a release; continues where a killed attempt ended. Resolves to what changed, the same for every call. */
export async function place(places: Places, request: PlacementRequest): Promise<PlacedFiles> {
  const { placed, brought } = await withOpenings(places, openings => placeOpened(places, request, openings))
  // Written last: it means that all is done, including the restored modes.
  if (brought) writeManifest(places.releases, request.release, placed, brought)
  return placed
}

/** `brought` is null when the release is placed already. */
async function placeOpened(
  places: Places,
  request: PlacementRequest,
  openings: Openings,
): Promise<{ placed: PlacedFiles; brought: Brought | null }> {
  const { files, releases, release } = places
  const done = readManifest(releases, files, request.release)
  if (done) return { placed: done.placed, brought: null }
  await undoUnfinished(places, request)
  const before = manifestBefore(releases, files, request.release)
  const plan = below(nameBytes(request.path), planOf(release, request.path))
  const placing = new Placing(places, before, request, openings)
  await placing.makeFolders(plan)
  await placing.putFiles(plan)
  if (request.whole) await placing.removeOld(plan)
  return { placed: placing.changed(), brought: placing.brought(plan) }
}

/** The sources as they will lie in the application's folder, with the folders that lead there. */
function below(path: string, { folders, files }: Sources): Sources {
  if (path === '') return { folders, files }
  const names = path.split('/')
  const leading = names.map((_, index) => [names.slice(0, index + 1).join('/'), 0o755] as const)
  const moved = <T>(map: Map<string, T>) => [...map].map(([name, value]) => [`${path}/${name}`, value] as const)
  return { folders: new Map([...leading, ...moved(folders)]), files: new Map(moved(files)) }
}

class Placing {
  readonly #journal: Journal
  /** Files that are not replaced: they are the same already, or only the application has changed them. */
  readonly #skipped = new Map<string, ReleasedFile>()
  readonly #sourceOf: (path: string) => string

  constructor(
    readonly places: Places,
    readonly before: Manifest,
    readonly request: PlacementRequest,
    readonly openings: Openings,
  ) {
    this.#journal = new Journal(places.release)
    this.#sourceOf = sourceOf(request)
    if (!places.release.stat(recordNames.replaced)) mkdirSync(places.release.at(recordNames.replaced))
  }

  async makeFolders(plan: Sources): Promise<void> {
    const { files } = this.places
    const missing = [...plan.folders].filter(([path]) => !files.stat(path)?.isDirectory())
    const changes = missing.map(([path, mode]) => ['folder', path, mode] as const)
    await this.#journal.carryOut(changes, (change, number) => this.#retry(change, number, this.#makeFolder))
  }

  async putFiles(plan: Sources): Promise<void> {
    const { release } = this.places
    const changes: Change[] = []
    for (const [path, released] of plan.files) {
      if (release.stat(this.#sourceOf(path)) && !this.#skip(path, released)) changes.push(['put', path])
    }
    await this.#journal.carryOut(changes, (change, number) => this.#retry(change, number, this.#put))
  }

  /** Removes what earlier releases brought, this one does not, and the application did not change. */
  async removeOld(plan: Sources): Promise<void> {
    const { files } = this.places
    const earlier = this.before.all()
    const isOld = (path: string) => !plan.files.has(path) && !plan.folders.has(path)
    const old = [...earlier.files].filter(([path, released]) => {
      const stats = isOld(path) && files.stat(path)
      return stats && isUnchanged(files, path, stats, released)
    })
    const removals = old.map(([path]) => ['take', path] as const)
    await this.#journal.carryOut(removals, (change, number) => this.#retry(change, number, this.#take))
    const changes = [...earlier.folders.keys()].reverse().flatMap(path => {
      const stats = isOld(path) ? files.stat(path) : null
      return stats?.isDirectory() ? [['remove', path, this.openings.modeBefore(path, stats)] as const] : []
    })
    await this.#journal.carryOut(changes, ([, path]) => removeEmpty(files, path))
  }

  /** The current content of the folder that came from releases. */
  brought(plan: Sources): Brought {
    const own = new Map([...plan.files].map(([path, released]) => [path, this.#skipped.get(path) ?? released]))
    const content: Sources = { folders: plan.folders, files: own }
    return this.request.whole ? { content, before: this.before } : { changes: content, before: this.before }
  }

  /** Read from the journal, so that a placing in two attempts returns all changes. */
  changed(): PlacedFiles {
    const { release } = this.places
    const replaced = new Set(release.list(recordNames.replaced))
    const [added, modified, removed] = [new Set<string>(), new Set<string>(), new Set<string>()]
    for (const [number, [act, path]] of this.#journal.changes.entries()) {
      const aside = replaced.has(String(number))
      if (act === 'take' && aside) removed.add(path)
      if (act === 'put' && !release.stat(this.#sourceOf(path))) (aside ? modified : added).add(path)
    }
    this.#journal.close()
    for (const path of modified) added.delete(path)
    return { added: listedNames([...added]), modified: listedNames([...modified]), removed: listedNames([...removed]) }
  }

  #skip(path: string, released: ReleasedFile): boolean {
    const { files } = this.places
    const now = files.stat(path)
    if (!now || now.isDirectory()) return false
    const old = this.before.file(path)
    const untouched = isUnchanged(files, path, now, old)
    const same = untouched ? old?.hash === released.hash : isUnchanged(files, path, now, released)
    if (same && (now.mode & 0o777) === released.mode) {
      this.#skipped.set(path, describe(now, released.hash))
      return true
    }
    // The application changed this file and the push did not: it is the application's.
    const changedByApp = this.request.whole && !untouched && old?.hash === released.hash
    if (changedByApp) this.#skipped.set(path, old)
    return changedByApp
  }

  #makeFolder = ([, path, mode]: Change, number: number): void => {
    const { files } = this.places
    const now = files.stat(path)
    if (now?.isDirectory()) return
    if (now) setAside(this.places, path, number)
    mkdirSync(files.at(path), { mode })
  }

  #take = ([, path]: Change, number: number): void => setAside(this.places, path, number)

  /** Renames over what is there, so that a reader finds either the old file or the new one, whole. */
  #put = ([, path]: Change, number: number): void => {
    const { files, release } = this.places
    const now = files.stat(path)
    if (now) setAside(this.places, path, number, !now.isDirectory())
    renameSync(release.at(this.#sourceOf(path)), files.at(path))
  }

  /** Tries again, recorded as a new change, when the application changed the path meanwhile. */
  #retry<T extends Change>(change: T, number: number, act: (change: T, number: number) => void): void {
    for (let attempt = 1; ; attempt++) {
      try {
        act(change, number)
        return
      } catch (error) {
        if (attempt === maxAttempts || !retryable.has(codeOf(error))) throw error
        this.#clearWay(change[1])
        number = this.#journal.record([change])
      }
    }
  }

  /** Makes sure that the folders above a path are folders. */
  #clearWay(path: string): void {
    const { files } = this.places
    files.forget()
    const names = path.split('/').slice(0, -1)
    for (const [index] of names.entries()) {
      const folder = names.slice(0, index + 1).join('/')
      if (!files.stat(folder)?.isDirectory())
        this.#makeFolder(['folder', folder, 0o755], this.#journal.record([['folder', folder, 0o755]]))
    }
  }
}

const retryable = new Set(['EEXIST', 'ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENOTEMPTY', 'EACCES'])
