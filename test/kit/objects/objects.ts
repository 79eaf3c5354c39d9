import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import type { Db } from '../../../db/database.ts'
import { putObject } from '../../../db/objects/object-puts.ts'
import type { NewObjectPart } from '../../../db/objects/object-segments.ts'
import { type NewObject, openObject, type StoredObject, type StoreOptions } from '../../../db/objects/objects.ts'
import * as segments from '../../../db/objects/segments.ts'
import type { ObjectName } from '../../../policy/objects/object-names.ts'

/** An allocated segment with a text, as a store would have it. */
export async function drawnPart(db: Db, text: string): Promise<NewObjectPart & { body: segments.BodyFacts }> {
  const md5 = createHash('md5').update(text).digest('hex')
  const sha256 = createHash('sha256').update(text).digest('hex')
  const size = Buffer.byteLength(text)
  return { segmentId: await segments.allocateSegment(db), length: size, md5, body: { size, sha256, md5, crc32: 7 } }
}

/** An object whose bytes are not read. */
export async function put(
  db: Db,
  name: ObjectName,
  text: string,
  { changes, ...options }: StoreOptions & { changes?: Partial<NewObject> } = {},
): Promise<StoredObject & { segmentId: string }> {
  const part = await drawnPart(db, text)
  const object = { ...name, contentType: 'text/plain', etag: part.body.md5!, sha256: part.body.sha256, ...changes }
  return { ...(await putObject(db, object, part, options)), segmentId: part.segmentId }
}

/** The bytes of an object, from wherever its stretches lie; undefined where there is none. Stretches are whole segments. */
export async function contentOf(
  { db, store }: { db: Db; store: ObjectStore },
  name: ObjectName,
): Promise<Buffer | undefined> {
  const found = await openObject(db, name)
  if (!found) return undefined
  const pieces: Buffer[] = []
  for (const { bytes, segmentId } of found.parts) pieces.push(bytes ?? (await buffer(await store.get(segmentId))))
  return Buffer.concat(pieces)
}
