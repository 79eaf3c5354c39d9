import { mkdirSync, renameSync } from 'node:fs'
import { bytesOf, codeOf } from '../../lib/folders/disk-names.ts'
import { recordNames } from './job.ts'
import { type Change, Journal } from './journal.ts'
import {
  type Brought,
  describe,
  isAsBrought,
  type Manifest,
  manifestBefore,
  planOf,
  readManifest,
  type Sources,
  toldNames,
  writeManifest,
} from './manifest.ts'
import { type Openings, withOpenings } from './openings.ts'
import { type Places, removeEmpty, setAside, sourceOf } from './places.ts'
import type { PlacedFiles, PlaceRequest } from './port.ts'
import { takeBackUnfinished } from './unfinished.ts'

/** An application that changes what lies in the way again and again is given up on. */
const attempts = 20

/** Places a release; goes on where a killed attempt ended. Resolves to what changed, the same for every call. */
export async function place(places: Places, request: PlaceRequest): Promise<PlacedFiles> {
  const { releases, files } = places
  const manifest = await withOpenings(places, openings => placeOpened(places, request, openings))
  // It says that all is done, also that what was opened is closed.
  if (!readManifest(releases, files, request.release)) writeManifest(releases, request.release, manifest)
  return manifest.placed
}

async function placeOpened(places: Places, request: PlaceRequest, openings: Openings): Promise<Manifest> {
  const { files, releases, release } = places
  const done = readManifest(releases, files, request.release)
  if (done) return done
  await takeBackUnfinished(places, request)
  const before = manifestBefore(releases, files, request.release)
  const plan = below(bytesOf(request.path), planOf(release, request.path))
  const placing = new Placing(places, before, request, openings)
  await placing.makeFolders(plan)
  await placing.putFiles(plan)
  if (request.whole) await placing.takeOld(plan)
  return { ...placing.standing(plan), placed: placing.changed() }
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
  /** Files that stay as they are, because they are the same already or the application changed what the release did not. */
  readonly #left = new Map<string, Brought>()
  readonly #sourceOf: (path: string) => string

  constructor(
    readonly places: Places,
    readonly before: Manifest,
    readonly request: PlaceRequest,
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
    await this.#journal.carryOut(changes, (change, number) => this.#insist(change, number, this.#makeFolder))
  }

  async putFiles(plan: Sources): Promise<void> {
    const { release } = this.places
    const changes: Change[] = []
    for (const [path, brought] of plan.files) {
      if (release.stat(this.#sourceOf(path)) && !this.#mayStay(path, brought)) changes.push(['put', path])
    }
    await this.#journal.carryOut(changes, (change, number) => this.#insist(change, number, this.#put))
  }

  /** Takes away what earlier releases brought, this one does not, and the application did not change. */
  async takeOld(plan: Sources): Promise<void> {
    const { files } = this.places
    const gone = (path: string) => !plan.files.has(path) && !plan.folders.has(path)
    const old = [...this.before.files].filter(([path, brought]) => {
      const stats = gone(path) && files.stat(path)
      return stats && isAsBrought(files, path, stats, brought)
    })
    const taken = old.map(([path]) => ['take', path] as const)
    await this.#journal.carryOut(taken, (change, number) => this.#insist(change, number, this.#take))
    const changes = [...this.before.folders.keys()].reverse().flatMap(path => {
      const stats = gone(path) ? files.stat(path) : null
      return stats?.isDirectory() ? [['remove', path, this.openings.modeBefore(path, stats)] as const] : []
    })
    await this.#journal.carryOut(changes, ([, path]) => removeEmpty(files, path))
  }

  /** What stands in the folder now and came from releases. */
  standing(plan: Sources): Sources {
    const own = new Map([...plan.files].map(([path, brought]) => [path, this.#left.get(path) ?? brought]))
    if (this.request.whole) return { folders: plan.folders, files: own }
    const folders = new Map([...this.before.folders, ...plan.folders])
    return { folders, files: new Map([...this.before.files, ...own]) }
  }

  /** Told from the journal, so that a placing in two attempts tells all of it. */
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
    return { added: toldNames([...added]), modified: toldNames([...modified]), removed: toldNames([...removed]) }
  }

  #mayStay(path: string, brought: Brought): boolean {
    const { files } = this.places
    const now = files.stat(path)
    if (!now || now.isDirectory()) return false
    const old = this.before.files.get(path)
    const untouched = isAsBrought(files, path, now, old)
    const same = untouched ? old?.hash === brought.hash : isAsBrought(files, path, now, brought)
    if (same && (now.mode & 0o777) === brought.mode) {
      this.#left.set(path, describe(now, brought.hash))
      return true
    }
    // The push did not touch this file and the application did: it is the application's.
    const theirs = this.request.whole && !untouched && old?.hash === brought.hash
    if (theirs) this.#left.set(path, old)
    return theirs
  }

  #makeFolder = ([, path, mode]: Change, number: number): void => {
    const { files } = this.places
    const now = files.stat(path)
    if (now?.isDirectory()) return
    if (now) setAside(this.places, path, number)
    mkdirSync(files.at(path), { mode })
  }

  #take = ([, path]: Change, number: number): void => setAside(this.places, path, number)

  /** Renames over what is there: a reader finds the old file or the new one, whole. */
  #put = ([, path]: Change, number: number): void => {
    const { files, release } = this.places
    const now = files.stat(path)
    if (now) setAside(this.places, path, number, !now.isDirectory())
    renameSync(release.at(this.#sourceOf(path)), files.at(path))
  }

  /** Tries again, as a change of its own, when the application changed what lies there in between. */
  #insist<T extends Change>(change: T, number: number, act: (change: T, number: number) => void): void {
    for (let attempt = 1; ; attempt++) {
      try {
        act(change, number)
        return
      } catch (error) {
        if (attempt === attempts || !mayHeal.has(codeOf(error))) throw error
        this.#clearWay(change[1])
        number = this.#journal.intend([change])
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
        this.#makeFolder(['folder', folder, 0o755], this.#journal.intend([['folder', folder, 0o755]]))
    }
  }
}

const mayHeal = new Set(['EEXIST', 'ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENOTEMPTY', 'EACCES'])
