import { open } from 'node:fs/promises'
import { nameBytes, nameText, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { codeOf, unreachable, vanished } from '../../lib/folders/error-codes.ts'
import { AppFolder, openFolder } from '../app-files/folder.ts'

/** Max entries that are searched for a name or a pattern. */
const maxSearched = 100_000

/**
 * Returns those of these names that an open folder has, in their order; for a pattern `*.x` the first match. A folder may have millions of
 * entries: only the requested names are held in memory.
 */
export async function namesAmong(folder: AppFolder, candidates: readonly string[]): Promise<string[]> {
  const names: string[] = []
  for (const name of new Set(candidates)) {
    const match = name.startsWith('*') ? await firstMatch(folder, name.slice(1)) : await ifPresent(folder, name)
    if (match !== null) names.push(match)
  }
  return names
}

/** `namesAmong` for a path, which must not be a link. */
export async function namesIn(path: string, candidates: readonly string[]): Promise<string[]> {
  const folder = await AppFolder.open(path)
  return namesAmong(folder, candidates).finally(() => folder.close())
}

/**
 * Whether such a name is anywhere in a path, which must not be a link, apart from what lies in folders named `except`. Also true where there are
 * too many entries to tell.
 */
export async function hasAnywhere(path: string, isName: (name: string) => boolean, except: string): Promise<boolean> {
  let searched = 0
  async function within(folder: AppFolder): Promise<boolean> {
    try {
      for await (const entry of await folder.entries()) {
        const name = nameText(entry.name)
        searched += 1
        if (isName(name) || searched > maxSearched) return true
        const isSearched = entry.isDirectory() && name !== except
        if (isSearched && (await within(await folder.enter(entry.name)))) return true
      }
      return false
    } finally {
      await folder.close()
    }
  }
  return within(await AppFolder.open(path))
}

/** Whether a path, which must not be a link, has an entry at its root apart from these names. */
export async function hasOthers(path: string, names: readonly string[]): Promise<boolean> {
  const folder = await AppFolder.open(path)
  try {
    for await (const { name } of await folder.entries()) if (!names.includes(nameText(name))) return true
    return false
  } finally {
    await folder.close()
  }
}

/** The text of a file in a path, in which no step may be a link; null when it is no file, or larger than `maxBytes`. */
export async function fileIn(path: string, name: string, maxBytes: number): Promise<string | null> {
  return (await bytesIn(path, name, maxBytes))?.toString('utf8') ?? null
}

/** `fileIn` as bytes. */
async function bytesIn(path: string, name: string, maxBytes: number): Promise<Buffer | null> {
  const steps = nameBytes(name).split('/')
  const own = steps.pop()!
  const folder = steps.length > 0 ? await openFolder(path, steps).catch(unlessUnreachable) : await AppFolder.open(path)
  if (!folder) return null
  try {
    const file = await open(folder.at(own), untrustedFileFlags)
    try {
      const stats = await file.stat()
      if (!stats.isFile() || stats.size > maxBytes) return null
      const { bytesRead, buffer } = await file.read(Buffer.alloc(stats.size + 1), 0, stats.size + 1, 0)
      return bytesRead > stats.size ? null : buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (vanished.has(codeOf(error))) return null
    throw error
  } finally {
    await folder.close()
  }
}

/** Whether a name at the root of a path, which must not be a link, is a folder without entries; dependencies are mounted at such ones. */
async function isEmptyFolder(path: string, name: string): Promise<boolean> {
  const root = await AppFolder.open(path)
  try {
    const folder = await root.enter(nameBytes(name))
    try {
      for await (const _ of await folder.entries()) return false
      return true
    } finally {
      await folder.close()
    }
  } catch (error) {
    if (unreachable.has(codeOf(error))) return false
    throw error
  } finally {
    await root.close()
  }
}

/** Folders of which each lies over the next one, as `layReleaseOver` makes one of them: what is found in two is that of the first. */
export type Layers = readonly string[]

/** `namesIn` for layers. */
export async function namesInLayers(layers: Layers, wanted: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const layer of layers) found.push(...(await namesIn(layer, wanted)))
  return [...new Set(found)]
}

/** `bytesIn` for layers. A file in the place of a folder hides what lies in that one below. */
export async function bytesInLayers(layers: Layers, name: string, maxBytes: number): Promise<Buffer | null> {
  for (const layer of layers) if ((await placeIn(layer, name)) !== 'missing') return bytesIn(layer, name, maxBytes)
  return null
}

/** Whether a name at the root is an empty folder in each layer that has it. */
export async function isEmptyInLayers(layers: Layers, name: string): Promise<boolean> {
  for (const layer of layers)
    if ((await placeIn(layer, name)) !== 'missing' && !(await isEmptyFolder(layer, name))) return false
  return true
}

/** Whether a path, which must not be a link, has something of this name, or something other than a folder above it. */
async function placeIn(path: string, name: string): Promise<'present' | 'missing' | 'obstructed'> {
  const steps = nameBytes(name).split('/')
  const own = steps.pop()!
  let folder = await AppFolder.open(path)
  try {
    for (const step of steps) {
      if (!(await folder.stat(step))) return 'missing'
      const above = folder
      folder = await above.enter(step)
      await above.close()
    }
    return (await folder.stat(own)) ? 'present' : 'missing'
  } catch (error) {
    if (unreachable.has(codeOf(error))) return 'obstructed'
    throw error
  } finally {
    await folder.close()
  }
}

/** Whether a path below an open folder exists and is not a folder. Links are not followed. */
export async function hasFile(root: AppFolder, path: string): Promise<boolean> {
  const names = nameBytes(path).split('/')
  const name = names.pop()!
  const opened: AppFolder[] = []
  try {
    for (const step of names) opened.push(await (opened.at(-1) ?? root).enter(step))
    return (await (opened.at(-1) ?? root).stat(name))?.isDirectory() === false
  } catch (error) {
    if (unreachable.has(codeOf(error))) return false
    throw error
  } finally {
    for (const folder of opened) await folder.close()
  }
}

function unlessUnreachable(error: unknown): null {
  if (unreachable.has(codeOf(error))) return null
  throw error
}

async function ifPresent(folder: AppFolder, name: string): Promise<string | null> {
  return (await folder.stat(nameBytes(name))) ? name : null
}

async function firstMatch(folder: AppFolder, suffix: string): Promise<string | null> {
  let searched = 0
  for await (const { name } of await folder.entries()) {
    if (nameText(name).endsWith(suffix)) return nameText(name)
    searched += 1
    if (searched === maxSearched) return null
  }
  return null
}
