import { createHash, randomBytes } from 'node:crypto'
import { readdir, readlink } from 'node:fs/promises'
import { factsOf } from '../../../api/uploads/small-bodies.ts'
import { transaction } from '../../../db/database.ts'
import { type NewObject, type ObjectRow, storeObject } from '../../../db/objects/objects.ts'
import * as segments from '../../../db/objects/segments.ts'
import { newId } from '../../../policy/ids.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import type { TestApi, TestUser } from '../actors/api.ts'
import { bodyOf } from '../bodies.ts'

export interface MadeObject {
  id: string
  bytes: Buffer
  row: ObjectRow
  segmentIds: string[]
}

type Made = Partial<Omit<NewObject, 'ownerId'>> & {
  bytes?: Buffer /** Each a segment of its own. */
  pieces?: Buffer[]
  /** Whether small segments are stored in their rows, as uploads do. */
  inline?: boolean
  overwrite?: boolean
}

/** An object as an upload leaves it, of any name, in as many segments as it has pieces. */
export async function madeObject(api: TestApi, owner: TestUser, made: Made = {}): Promise<MadeObject> {
  const { bytes = randomBytes(1000), pieces = [bytes], inline = false, overwrite = false, ...rest } = made
  const parts = await Promise.all(
    pieces.map(async piece => {
      if (inline && piece.length <= 16_384)
        return { segmentId: newId(), length: piece.length, body: factsOf(piece), bytes: piece }
      const segmentId = await segments.allocateSegment(api.db)
      const body = await api.store.put(segmentId, bodyOf(piece))
      return { segmentId, length: piece.length, body }
    }),
  )
  const whole = Buffer.concat(pieces)
  const object: NewObject = {
    ownerId: owner.id,
    bucket: 'private',
    key: `${randomBytes(6).toString('hex')}.bin`,
    contentType: 'application/octet-stream',
    etag: createHash('md5').update(whole).digest('hex'),
    ...rest,
  }
  const { object: row } = await transaction(api.db, trx => storeObject(trx, object, parts, { overwrite }))
  return { id: objectId(object), bytes: whole, row, segmentIds: parts.map(part => part.segmentId) }
}

/** An address of the platform's, where this test's own surfaces listen. */
export function here(api: TestApi, url: string): string {
  const { urls } = api.services.config
  return url.replace(urls.files, api.filesUrl).replace(urls.public, api.publicUrl)
}

/** How many stored bodies this process holds open. */
export async function heldBodies({ store }: TestApi): Promise<number> {
  const descriptors = await readdir('/proc/self/fd')
  const paths = await Promise.all(descriptors.map(fd => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return paths.filter(path => path.startsWith(store.pathOf('o/'))).length
}
