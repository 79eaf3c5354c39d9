import { nameText } from '../../lib/folders/disk-names.ts'
import { unreachable } from '../../lib/folders/error-codes.ts'
import { isSecretFile } from '../../policy/apps/secret-files.ts'
import { nameLimits } from '../../policy/archives/archive-names.ts'
import { type AppFolder, ignore } from './folder.ts'

/** Entries that are read concurrently: neither one by one, nor a large folder at once. */
const batchSize = 256

/** Entries as a JSON list. Each batch is sorted by name; batches come in the order of the disk. */
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
    if (batch.length < batchSize) continue
    yield batch.sort()
    batch = []
  }
  yield batch.sort()
}

/** An entry in its wire form (contract 4.19); a link counts as a file of its own size. Null when it was removed meanwhile. */
async function entryOf(folder: AppFolder, name: string) {
  const stats = await folder.stat(name)
  if (!stats) return null
  const directory = stats.isDirectory()
  return {
    name: nameText(name),
    type: directory ? 'directory' : 'file',
    size: directory ? 0 : stats.size,
    lastModified: Math.trunc(stats.mtimeMs),
  }
}

export async function isEmpty(folder: AppFolder): Promise<boolean> {
  for await (const _ of await folder.entries()) return false
  return true
}

/** Whether the folder at `path` contains something that is hidden from the caller; anything deeper than a path may be counts as hidden. */
export async function holdsSecrets(
  folder: AppFolder,
  path: string,
  hiding: readonly string[],
  levels: number = nameLimits.levels,
): Promise<boolean> {
  if (levels === 0) return true
  for await (const entry of await folder.entries()) {
    const inner = `${path}/${nameText(entry.name)}`
    if (isSecretFile(inner, hiding)) return true
    const child = entry.isDirectory() && (await folder.enter(entry.name).catch(error => ignore(error, ...unreachable)))
    if (!child) continue
    const hasSecrets = await holdsSecrets(child, inner, hiding, levels - 1).finally(() => child.close())
    if (hasSecrets) return true
  }
  return false
}
