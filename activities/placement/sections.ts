import { createHash } from 'node:crypto'
import { fsyncSync, mkdirSync } from 'node:fs'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { linkTo } from './places.ts'
import { noSources, parse, type Sources, stringify } from './sources.ts'

/** The names from one on, up to the next section's first one, as releases brought them. */
export interface Section {
  /** Empty for the first section. */
  from: string
  /** Its file below `sections/`; null until it has one. */
  name: string | null
  read(): Sources
}

/** A section with more names is split evenly, into parts of up to `perPart`; one with fewer than `min` joins the one before it. */
export const sectionSizes = { max: 1024, perPart: 768, min: 128 }

/** All that sections hold, outer folders first. */
export function joined(sections: readonly Section[]): Sources {
  const sources = noSources()
  for (const section of sections) addTo(sources, section.read())
  return sources
}

function addTo(sources: Sources, { folders, files }: Sources): void {
  for (const [path, mode] of folders) sources.folders.set(path, mode)
  for (const [path, file] of files) sources.files.set(path, file)
}

/** The section that holds a name, by its index. */
export function sectionAt(sections: readonly Section[], path: string): number {
  let [first, last] = [0, sections.length - 1]
  while (first < last) {
    const middle = Math.ceil((first + last) / 2)
    if (sections[middle]!.from <= path) first = middle
    else last = middle - 1
  }
  return first
}

/** Sections with the changes laid over them; those without a change stay as they are, unread. */
export function changed(sections: readonly Section[], changes: Sources): Section[] {
  const parts = distributed(sections, changes)
  return sections.flatMap((section, index) => {
    const part = parts.get(index)
    if (!part) return [section]
    const sources = joined([section])
    addTo(sources, part)
    return split(section.from, sources)
  })
}

/** Sections with this content instead, cut at the same names as far as possible: most of them then stay the same file. */
export function replaced(sections: readonly Section[], content: Sources): Section[] {
  const result: { from: string; sources: Sources }[] = []
  const parts = distributed(sections, content)
  for (const index of [...parts.keys()].sort((a, b) => a - b)) {
    const part = parts.get(index)!
    const last = result.at(-1)
    if (last && sizeOf(part) < sectionSizes.min) addTo(last.sources, part)
    else result.push({ from: last ? sections[index]!.from : '', sources: part })
  }
  return result.flatMap(({ from, sources }) => split(from, sources))
}

/** Content by the index of the section that it belongs to. */
function distributed(sections: readonly Section[], { folders, files }: Sources): Map<number, Sources> {
  const parts = new Map<number, Sources>()
  const partOf = (path: string): Sources => {
    const index = sectionAt(sections, path)
    const part = parts.get(index) ?? noSources()
    parts.set(index, part)
    return part
  }
  for (const [path, mode] of folders) partOf(path).folders.set(path, mode)
  for (const [path, file] of files) partOf(path).files.set(path, file)
  return parts
}

function split(from: string, { folders, files }: Sources): Section[] {
  const paths = [...new Set([...folders.keys(), ...files.keys()])].sort()
  const parts = paths.length <= sectionSizes.max ? 1 : Math.ceil(paths.length / sectionSizes.perPart)
  const size = Math.ceil(paths.length / parts)
  return Array.from({ length: parts }, (_, part) => {
    const own = paths.slice(part * size, (part + 1) * size)
    const sources: Sources = {
      folders: new Map(own.flatMap(path => (folders.has(path) ? [[path, folders.get(path)!]] : []))),
      files: new Map(own.flatMap(path => (files.has(path) ? [[path, files.get(path)!]] : []))),
    }
    return { from: part === 0 ? from : own[0]!, name: null, read: () => sources }
  })
}

const sizeOf = ({ folders, files }: Sources): number => folders.size + files.size

/** The section in a file of a release, read when it is first needed. Throws an Error when it is missing. */
export function storedSection(releases: Tree, release: number, from: string, name: string): Section {
  let sources: Sources | undefined
  const read = () => {
    const text = releases.read(`${release}/${recordNames.sections}/${name}`)
    if (text === null) throw new Error(`A part of the manifest of release ${release} is missing: ${name}.`)
    return parse<Sources>(text)
  }
  return { from, name, read: () => (sources ??= read()) }
}

/**
 * Stores sections as files of a release, named by their digests. What an earlier release has stored is linked. All of it is on the
 * disk when this returns, content and names. Returns first name and file of each.
 */
export function storeSections(
  releases: Tree,
  release: number,
  sections: readonly Section[],
  earlier: number,
): string[][] {
  const folder = `${release}/${recordNames.sections}`
  releases.remove(folder) // of a killed attempt, or of a placing that was undone
  mkdirSync(releases.at(folder), { mode: 0o700 })
  const target = releases.tree(folder)
  const stored = `${earlier}/${recordNames.sections}`
  const source = releases.stat(stored) ? releases.tree(stored) : null
  const names = sections.map(section => {
    const text = section.name === null ? stringify(section.read()) : null
    const name = section.name ?? createHash('sha256').update(text!).digest('hex')
    if (!source?.stat(name) || !linkTo(source.at(name), target.at(name)))
      target.write(name, text ?? stringify(section.read()))
    return [section.from, name]
  })
  fsyncSync(target.descriptor)
  source?.close()
  target.close()
  return names
}
