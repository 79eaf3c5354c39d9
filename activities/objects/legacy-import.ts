import { createReadStream } from 'node:fs'
import { opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Db, transaction } from '../../db/database.ts'
import { backdateObject } from '../../db/objects/object-changes.ts'
import { findObject, storeObject } from '../../db/objects/objects.ts'
import * as segments from '../../db/objects/segments.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import { ApiError } from '../../policy/errors.ts'
import { isKey } from '../../policy/objects/object-names.ts'
import { contentTypeOf, extensionOf } from '../../policy/objects/object-types.ts'
import { BodyMismatch, type ObjectStore } from './port.ts'

/** How far an import is. */
export interface ImportState {
  imported: number
  /** Had been imported before. */
  already: number
  /** Imported now. */
  bytes: number
  skipped: { path: string; why: string }[]
}

export interface ImportOptions {
  db: Db
  store: ObjectStore
  /** What lies below it keeps its path as the key of the object. */
  folder: string
  ownerId: string
  /** Told after each file. */
  progress?(so: ImportState): void
}

/** Files that are imported concurrently. */
const width = 4

/**
 * Brings files in as legacy objects under their old ids, `<user id>/<path>`, as old as the files. Whoever breaks off and begins again
 * goes on: what is there already is not copied twice, and what is there with another size is left and told.
 */
export async function importLegacy(options: ImportOptions): Promise<ImportState> {
  const so: ImportState = { imported: 0, already: 0, bytes: 0, skipped: [] }
  const files = filesBelow(options.folder, '', so)
  await eachConcurrently(files, width, async path => {
    await importOne(options, path, so).catch(error => {
      const why = unreadable(error)
      if (!why) throw error
      so.skipped.push({ path, why })
    })
    options.progress?.(so)
  })
  return so
}

/** Why one file cannot be brought in while others can; undefined for what stops them all. */
function unreadable(error: unknown): string | undefined {
  if (error instanceof BodyMismatch) return 'it changed while it was read'
  const { code, syscall } = error as NodeJS.ErrnoException
  if (syscall && ['ENOENT', 'EACCES', 'EPERM'].includes(code ?? '')) return `it cannot be read: ${code}`
  return undefined
}

/** Regular files below a folder by their paths in it; links and devices are told, and not followed. */
async function* filesBelow(folder: string, below: string, so: ImportState): AsyncGenerator<string> {
  for await (const entry of await opendir(join(folder, below))) {
    const path = below ? `${below}/${entry.name}` : entry.name
    if (entry.isDirectory()) yield* filesBelow(folder, path, so)
    else if (entry.isFile()) yield path
    else so.skipped.push({ path, why: 'it is no regular file' })
  }
}

async function importOne({ db, store, folder, ownerId }: ImportOptions, path: string, so: ImportState): Promise<void> {
  if (!isKey(path)) return void so.skipped.push({ path, why: 'an object cannot have such a name' })
  const name = { ownerId, bucket: 'legacy', key: path } as const
  const { size, mtime } = await stat(join(folder, path))
  const there = await findObject(db, name)
  if (there?.size === size) return void so.already++
  if (there) return void so.skipped.push({ path, why: `there is one of ${there.size} bytes already` })
  const segmentId = await segments.allocateSegment(db)
  const body = await store.put(segmentId, createReadStream(join(folder, path)), { length: size })
  const { md5: etag, sha256 } = body
  const contentType = contentTypeOf(extensionOf(path) ?? '')
  try {
    await transaction(db, async trx => {
      await storeObject(trx, { ...name, contentType, etag, sha256 }, [{ segmentId, length: size, body }])
      await backdateObject(trx, name, mtime)
    })
    so.imported++
    so.bytes += size
  } catch (error) {
    if (!(error instanceof ApiError && error.code === 'OBJECT_ALREADY_EXISTS')) throw error
    so.already++ // another import was faster; the sweep takes our body
  }
}
