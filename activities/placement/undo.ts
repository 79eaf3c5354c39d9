import { linkSync, mkdirSync, renameSync, unlinkSync } from 'node:fs'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { recordNames } from './job.ts'
import { type Change, Journal } from './journal.ts'
import { withOpenings } from './openings.ts'
import { moveToReplaced, type Places, removeEmpty, replacedAs, sourceOf } from './places.ts'
import type { PlacementRequest } from './port.ts'
import { isUnchanged, planOf, type Sources } from './sources.ts'

export interface UndoTerms {
  /** Leaves what the application has changed, removed or created since: its release was placed long ago. */
  sparesOwnChanges?: boolean
}

/** Undoes a release; continues where a killed attempt ended. Without a journal there is nothing to undo. */
export function restore(places: Places, request: PlacementRequest, terms: UndoTerms = {}): Promise<void> {
  return withOpenings(places, () => restoreOpened(places, request, terms))
}

async function restoreOpened(places: Places, request: PlacementRequest, terms: UndoTerms): Promise<void> {
  const { release } = places
  if (!release.stat(recordNames.journal)) return
  if (release.stat(recordNames.manifest)) unlinkSync(release.at(recordNames.manifest))
  const undoing = new Undoing(places, request, terms)
  const journal = new Journal(release)
  for (let number = journal.changes.length - 1; number >= 0; number--) {
    undoing.undo(journal.changes[number]!, number)
    if (number % 256 === 0) await yieldToEventLoop()
  }
  journal.close()
}

class Undoing {
  readonly #plan: Sources
  readonly #sourceOf: (path: string) => string

  constructor(
    readonly places: Places,
    readonly request: PlacementRequest,
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
      if (release.stat(replacedAs(number)) && !this.#spares(files.stat(path) !== null)) this.#putBack(path, number)
    }
  }

  /** A file was put into the application's folder if it is missing in the sources. */
  #undoPut(path: string, number: number): void {
    const { files, release } = this.places
    const source = this.#sourceOf(path)
    const aside = release.stat(replacedAs(number))
    const waiting = release.stat(source)
    const now = files.stat(path)
    if (waiting && waiting.ino !== now?.ino) {
      // Never put there. A linked file is still in its place, or the application has replaced it with something newer.
      if (aside && (!now || (aside.isDirectory() && !this.#spares(true)))) this.#putBack(path, number)
      return
    }
    const released = this.#plan.files.get(source.slice('source/'.length))
    const untouched = now !== null && isUnchanged(files, path, now, released)
    if (!waiting && untouched) {
      // The old file is renamed over it later, so that a reader always finds one.
      if (aside && !aside.isDirectory()) linkSync(files.at(path), release.at(source))
      else renameSync(files.at(path), release.at(source))
    }
    // Without a previous file, one that the application has changed stays.
    if (!aside || this.#spares(!untouched)) return
    if (now && !untouched) keepVersion(this.places, this.request.release, path)
    this.#putBack(path, number)
  }

  /** Whether a change of the application's own stays. */
  #spares(isOwnChange: boolean): boolean {
    return isOwnChange && this.terms.sparesOwnChanges === true
  }

  #putBack(path: string, number: number): void {
    const { files, release } = this.places
    this.#makeFolders(path, 0o755)
    const now = files.stat(path)
    // A file is replaced by the rename itself, so that a reader always finds one.
    if (now && (now.isDirectory() || release.stat(replacedAs(number))?.isDirectory()))
      keepVersion(this.places, this.request.release, path)
    renameSync(release.at(replacedAs(number)), files.at(path))
    files.forget()
  }

  /** Creates the folders above a path, the innermost with `mode`; anything else at their names is moved to `.replaced/`. */
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

/** Moves the application's own version out of the way, to where its owner finds it. */
function keepVersion(places: Places, release: number, path: string): void {
  moveToReplaced(places, release, path, [places.files, path])
}
