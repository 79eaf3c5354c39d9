import { nameText } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { maxListed, recordNames } from './job.ts'
import type { PlacedFiles } from './port.ts'
import { changed, joined, replaced, type Section, sectionAt, storedSection, storeSections } from './sections.ts'
import { noSources, type ReleasedFile, type Sources, scan, stringify } from './sources.ts'

/**
 * What releases have brought up to one of them. An application may have very many files: only the sections are read that hold the
 * requested names, and only those are written that have changed.
 */
export class Manifest {
  constructor(
    /** 0 before the first one. */
    readonly release: number,
    readonly placed: PlacedFiles,
    readonly sections: readonly Section[],
  ) {}

  file(path: string): ReleasedFile | undefined {
    return this.sections[sectionAt(this.sections, path)]!.read().files.get(path)
  }

  /** Reads everything. */
  all(): Sources {
    return joined(this.sections)
  }
}

/** What the releases before `release` have brought; empty before the first. */
export function manifestBefore(releases: Tree, files: Tree, release: number): Manifest {
  for (const number of releaseNumbers(releases).filter(other => other < release)) {
    const manifest = readManifest(releases, files, number)
    if (manifest) return manifest
  }
  return new Manifest(0, noFiles(), [loaded(noSources())])
}

/** Null when the release is not placed. */
export function readManifest(releases: Tree, files: Tree, release: number): Manifest | null {
  const text = releases.read(`${release}/${recordNames.manifest}`)
  if (text) return parsed(releases, release, text)
  const first = releases.stat(`${release}/${recordNames.first}`)
  if (!first || releases.stat(`${release}/source`)) return null
  // A first release was renamed as a whole; what changed since is the application's own.
  const sources = scan(files, first.mtimeMs)
  const placed = { ...noFiles(), added: listedNames([...sources.files.keys()]) }
  writeManifest(releases, release, placed, { content: sources })
  return parsed(releases, release, releases.read(`${release}/${recordNames.manifest}`)!)
}

/** A manifest of an older version has no sections, and neither has one of few files. */
function parsed(releases: Tree, release: number, text: string): Manifest {
  const { placed, sections, ...content } = JSON.parse(text)
  const all: Section[] = sections
    ? sections.map(([from, name]: [string, string]) => storedSection(releases, release, from, name))
    : [loaded({ folders: new Map(content.folders), files: new Map(content.files) })]
  return new Manifest(release, placed, all)
}

const loaded = (sources: Sources): Section => ({ from: '', name: null, read: () => sources })

/** What releases have brought now: the earlier content with changes, or other content. */
export type Brought = { changes: Sources; before: Manifest } | { content: Sources; before?: Manifest }

/** Records a release as placed. */
export function writeManifest(releases: Tree, release: number, placed: PlacedFiles, brought: Brought): void {
  const earlier = brought.before?.sections ?? [loaded(noSources())]
  const sections = 'changes' in brought ? changed(earlier, brought.changes) : replaced(earlier, brought.content)
  const text =
    sections.length > 1
      ? JSON.stringify({ placed, sections: storeSections(releases, release, sections, brought.before?.release ?? 0) })
      : stringify({ placed, ...joined(sections) })
  releases.write(`${release}/${recordNames.manifest}`, text)
}

/** Numbers of the releases, newest first. */
export function releaseNumbers(releases: Tree): number[] {
  const numbers = releases.list().filter(name => /^[1-9]\d*$/.test(name))
  return numbers.map(Number).sort((a, b) => b - a)
}

export const noFiles = (): PlacedFiles => ({ added: [], modified: [], removed: [] })

export const listedNames = (paths: string[]): string[] => paths.sort().slice(0, maxListed).map(nameText)
