import { textOf, unreachable } from '../../lib/folders/disk-names.ts'
import { isSecretFile } from '../../policy/apps/secret-files.ts'
import { nameLimits } from '../../policy/archives/archive-names.ts'
import { type AppFolder, ignore } from './folder.ts'

/** So many are looked at together: neither one after the other, nor a large folder at once. */
const atOnce = 256

/** Entries as a JSON list. What fits one batch is sorted by name; more comes in the order of the disk. */
export async function* listing(folder: AppFolder, isHidden: (name: string) => boolean): AsyncGenerator<string> {
  let separator = '['
  for await (const names of batches(folder)) {
    const entries = await Promise.all(names.map(name => entryOf(folder, name)))
    for (const entry of entries) {
      if (!entry || isHidden(entry.name)) continue
      yield `${separator}${JSON.stringify(entry)}`
      separator = ','
    }
  }
  yield separator === '[' ? '[]' : ']'
}

async function* batches(folder: AppFolder): AsyncGenerator<string[]> {
  let batch: string[] = []
  for await (const { name } of await folder.entries()) {
    batch.push(name)
    if (batch.length < atOnce) continue
    yield batch.sort()
    batch = []
  }
  yield batch.sort()
}

/** As it is on the wire (contract 4.19); a link counts as a file of its own size. Null when it went meanwhile. */
async function entryOf(folder: AppFolder, name: string) {
  const found = await folder.stat(name)
  if (!found) return null
  const directory = found.isDirectory()
  return {
    name: textOf(name),
    type: directory ? 'directory' : 'file',
    size: directory ? 0 : found.size,
    lastModified: Math.trunc(found.mtimeMs),
  }
}

export async function isEmpty(folder: AppFolder): Promise<boolean> {
  for await (const _ of await folder.entries()) return false
  return true
}

/** Whether something in the folder at `path` is hidden from the caller; what lies deeper than a path can lead counts as hidden. */
export async function holdsSecrets(
  folder: AppFolder,
  path: string,
  hiding: readonly string[],
  levels: number = nameLimits.levels,
): Promise<boolean> {
  if (levels === 0) return true
  for await (const entry of await folder.entries()) {
    const inner = `${path}/${textOf(entry.name)}`
    if (isSecretFile(inner, hiding)) return true
    const below = entry.isDirectory() && (await folder.enter(entry.name).catch(error => ignore(error, ...unreachable)))
    if (!below) continue
    const found = await holdsSecrets(below, inner, hiding, levels - 1).finally(() => below.close())
    if (found) return true
  }
  return false
}
