import { linkSync, mkdirSync, renameSync, unlinkSync } from 'node:fs'
import { setImmediate as breath } from 'node:timers/promises'
import { recordNames } from './job.ts'
import { type Change, Journal } from './journal.ts'
import { isAsBrought, planOf, type Sources } from './manifest.ts'
import { withOpenings } from './openings.ts'
import { keep, type Places, removeEmpty, replacedAs, sourceOf } from './places.ts'
import type { PlaceRequest } from './port.ts'

export interface UndoTerms {
  /** What the application has changed, removed or made since stays as it is: its release was placed long ago. */
  yielding?: boolean
}

/** Takes a release back; goes on where a killed attempt ended. Without a journal there is nothing to take back. */
export function restore(places: Places, request: PlaceRequest, terms: UndoTerms = {}): Promise<void> {
  return withOpenings(places, () => restoreOpened(places, request, terms))
}

async function restoreOpened(places: Places, request: PlaceRequest, terms: UndoTerms): Promise<void> {
  const { release } = places
  if (!release.stat(recordNames.journal)) return
  if (release.stat(recordNames.manifest)) unlinkSync(release.at(recordNames.manifest))
  const undoing = new Undoing(places, request, terms)
  const journal = new Journal(release)
  for (let number = journal.changes.length - 1; number >= 0; number--) {
    undoing.undo(journal.changes[number]!, number)
    if (number % 256 === 0) await breath()
  }
  journal.close()
}

class Undoing {
  readonly #plan: Sources
  readonly #sourceOf: (path: string) => string

  constructor(
    readonly places: Places,
    readonly request: PlaceRequest,
    readonly terms: UndoTerms,
  ) {
    this.#plan = planOf(places.release, request.path)
    this.#sourceOf = sourceOf(request)
  }

  undo([act, path, mode]: Change, number: number): void {
    const { files, release } = this.places
    if (act === 'put') this.#undoPut(path, number)
    else if (act === 'remove') this.#makeFolders(`${path}/.`, mode)
    else {
      if (act === 'folder') removeEmpty(files, path)
      if (release.stat(replacedAs(number)) && !this.#yields(files.stat(path) !== null)) this.#putBack(path, number)
    }
  }

  /** A file went into the application's folder when it is missing in the sources. */
  #undoPut(path: string, number: number): void {
    const { files, release } = this.places
    const source = this.#sourceOf(path)
    const aside = release.stat(replacedAs(number))
    const waiting = release.stat(source)
    const now = files.stat(path)
    if (waiting && waiting.ino !== now?.ino) {
      // Never put there. What was linked still lies there, or the application has replaced it with something newer.
      if (aside && (!now || (aside.isDirectory() && !this.#yields(true)))) this.#putBack(path, number)
      return
    }
    const brought = this.#plan.files.get(source.slice('source/'.length))
    const untouched = now !== null && isAsBrought(files, path, now, brought)
    if (!waiting && untouched) {
      // A file is renamed over it in the end, so that a reader always finds one.
      if (aside && !aside.isDirectory()) linkSync(files.at(path), release.at(source))
      else renameSync(files.at(path), release.at(source))
    }
    // Without a predecessor, what the application has made its own stays.
    if (!aside || this.#yields(!untouched)) return
    if (now && !untouched) keepVersion(this.places, this.request.release, path)
    this.#putBack(path, number)
  }

  /** Whether a change stays as it is, when what lies there is the application's own by now. */
  #yields(itsOwn: boolean): boolean {
    return itsOwn && this.terms.yielding === true
  }

  #putBack(path: string, number: number): void {
    const { files, release } = this.places
    this.#makeFolders(path, 0o755)
    const now = files.stat(path)
    // A file gives way in the renaming itself, so that a reader always finds one.
    if (now && (now.isDirectory() || release.stat(replacedAs(number))?.isDirectory()))
      keepVersion(this.places, this.request.release, path)
    renameSync(release.at(replacedAs(number)), files.at(path))
    files.forget()
  }

  /** The folders above a path, the innermost with `mode`; whatever else has taken their names is kept elsewhere. */
  #makeFolders(path: string, mode: number): void {
    const { files } = this.places
    files.forget()
    const names = path.split('/').slice(0, -1)
    for (const [index] of names.entries()) {
      const folder = names.slice(0, index + 1).join('/')
      const now = files.stat(folder)
      if (now?.isDirectory()) continue
      if (now) keepVersion(this.places, this.request.release, folder)
      mkdirSync(files.at(folder), { mode: index === names.length - 1 ? mode : 0o755 })
    }
  }
}

/** Moves the application's own version of something out of the way, to where its owner finds it. */
function keepVersion(places: Places, release: number, path: string): void {
  keep(places, release, path, [places.files, path])
}
