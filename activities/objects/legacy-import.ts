import { createReadStream } from 'node:fs'
import { opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Db, transaction } from '../../db/database.ts'
import { backdateObject } from '../../db/objects/object-changes.ts'
import { findObject, storeObject } from '../../db/objects/objects.ts'
import * as segments from '../../db/objects/segments.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import { CodedError } from '../../policy/errors.ts'
import { isKey } from '../../policy/objects/object-names.ts'
import { contentTypeOf, extensionOf } from '../../policy/objects/object-types.ts'
import { BodyMismatch, type ObjectStore } from './port.ts'

/** Progress of an import. */
export interface ImportState {
  imported: number
  /** Imported before. */
  already: number
  /** Bytes imported now. */
  bytes: number
  skipped: { path: string; why: string }[]
}

export interface ImportOptions {
  db: Db
  store: ObjectStore
  /** The path of a file below it becomes the key of the object. */
  folder: string
  ownerId: string
  /** Called after each file. */
  onProgress?(state: ImportState): void
}

/** Files that are imported concurrently. */
const width = 4

/**
 * Imports files as legacy objects under their old ids, `<user id>/<path>`, with the times of the files. An interrupted import may be
 * started again: existing objects are not copied twice, and an object of another size is skipped and reported.
 */
export async function importLegacy(options: ImportOptions): Promise<ImportState> {
  const state: ImportState = { imported: 0, already: 0, bytes: 0, skipped: [] }
  const files = filesBelow(options.folder, '', state)
  await eachConcurrently(files, width, async path => {
    await importOne(options, path, state).catch(error => {
      const why = unreadable(error)
      if (!why) throw error
      state.skipped.push({ path, why })
    })
    options.onProgress?.(state)
  })
  return state
}

/** Why this one file cannot be imported; undefined for an error that stops the import. */
function unreadable(error: unknown): string | undefined {
  if (error instanceof BodyMismatch) return 'it changed while it was read'
  const { code, syscall } = error as NodeJS.ErrnoException
  if (syscall && ['ENOENT', 'EACCES', 'EPERM'].includes(code ?? '')) return `it cannot be read: ${code}`
  return undefined
}

/** Paths of the regular files below a folder; links and devices are reported as skipped, and not followed. */
async function* filesBelow(folder: string, prefix: string, state: ImportState): AsyncGenerator<string> {
  for await (const entry of await opendir(join(folder, prefix))) {
    const path = prefix ? `${prefix}/${entry.name}` : entry.name
    if (entry.isDirectory()) yield* filesBelow(folder, path, state)
    else if (entry.isFile()) yield path
    else state.skipped.push({ path, why: 'it is not a regular file' })
  }
}

async function importOne(
  { db, store, folder, ownerId }: ImportOptions,
  path: string,
  state: ImportState,
): Promise<void> {
  if (!isKey(path)) return void state.skipped.push({ path, why: 'an object cannot have such a name' })
  const name = { ownerId, bucket: 'legacy', key: path } as const
  const { size, mtime } = await stat(join(folder, path))
  const existing = await findObject(db, name)
  if (existing?.size === size) return void state.already++
  if (existing) return void state.skipped.push({ path, why: `the object exists already, with ${existing.size} bytes` })
  const segmentId = await segments.allocateSegment(db)
  const body = await store.put(segmentId, createReadStream(join(folder, path)), { length: size })
  const { md5: etag, sha256 } = body
  const contentType = contentTypeOf(extensionOf(path) ?? '')
  try {
    await transaction(db, async trx => {
      await storeObject(trx, { ...name, contentType, etag, sha256 }, [{ segmentId, length: size, body }])
      await backdateObject(trx, name, mtime)
    })
    state.imported++
    state.bytes += size
  } catch (error) {
    if (!(error instanceof CodedError && error.code === 'OBJECT_ALREADY_EXISTS')) throw error
    state.already++ // another import was faster; the sweep removes our segment
  }
}
