import { Readable } from 'node:stream'
import test from 'ava'
import { type Db, transaction } from '../../../db/database.ts'
import { findObject, removeObject } from '../../../db/objects/objects.ts'
import * as segments from '../../../db/objects/segments.ts'
import { completeUpload } from '../../../db/objects/uploads/upload-ends.ts'
import { storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { newId } from '../../../policy/ids.ts'
import { wholeParts } from '../../../policy/objects/uploads/chunked.ts'
import { FailingStore } from '../../kit/fakes/failing-store.ts'
import { put } from '../../kit/objects/objects.ts'
import { sweep } from '../../kit/objects/sweep.ts'
import { openedUpload } from '../../kit/objects/upkeep.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const storing = FailingStore.open()
test.serial.after.always('remove the store', async () => (await storing).close())
const database = testDatabase()

async function sent(db: Db, uploadId: string, text: string): Promise<string> {
  const segmentId = await segments.allocateSegment(db)
  await (await storing).put(segmentId, Readable.from(text))
  const body = { size: text.length, sha256: 'a'.repeat(64), md5: newId(), crc32: 1 }
  await transaction(db, trx => storeUploadPart(trx, { uploadId, part: 1, segmentId, body }))
  return segmentId
}

const minutesLater = (db: Db) =>
  db('segments')
    .whereNotNull('zero_since')
    .update({ zero_since: db.raw(`zero_since - interval '2 minutes'`) })

const left = async (db: Db, ids: string[]) => (await db('segments').whereIn('id', ids).orderBy('id').pluck('id')).sort()

test.serial(
  'a replaced part of an upload is swept after a minute, and one that was in an object after an hour',
  async t => {
    const { db } = await database
    const store = await storing
    const { id: ownerId } = await rows(db).user()
    const name = { ownerId, bucket: 'public', key: 'film' } as const
    const upload = await openedUpload(db, ownerId, 'film')
    const replaced = await sent(db, upload, 'first')
    const last = await sent(db, upload, 'second')
    await transaction(db, trx => completeUpload(trx, { id: upload, ownerId }, { choose: wholeParts }))
    t.truthy(await findObject(db, name))
    await transaction(db, trx => removeObject(trx, name))
    t.is(await sweep({ db, store }), 0)
    await minutesLater(db)
    t.is(await sweep({ db, store }), 1)
    t.deepEqual(await left(db, [replaced, last]), [last])
    await db('segments')
      .where({ id: last })
      .update({ zero_since: db.raw(`now() - interval '61 minutes'`) })
    t.is(await sweep({ db, store }), 1)
    t.deepEqual(await left(db, [last]), [])
  },
)

test.serial('segments that the store fails to delete are tried again later, and stop no others', async t => {
  const { db } = await database
  const store = await storing
  const { id: ownerId } = await rows(db).user()
  const stuck = Array.from({ length: 600 }, () => newId())
  await db.raw(
    `insert into segments (id, state, size, drawn_at, zero_since)
     select id, 'stored', 1, '2000-01-01', '2000-01-01' from unnest(?::text[]) as i (id)`,
    [stuck],
  )
  const { segmentId } = await put(db, { ownerId, bucket: 'public', key: 'late' }, 'late')
  await transaction(db, trx => removeObject(trx, { ownerId, bucket: 'public', key: 'late' }))
  await db('segments')
    .where({ id: segmentId })
    .update({ zero_since: db.raw(`now() - interval '2 hours'`) })
  const { delete: remove } = store
  store.delete = async id => {
    if (stuck.includes(id)) throw new Error('The store does not answer.')
    await remove(id)
  }
  for (let round = 0; round < 3; round++) await t.throwsAsync(sweep({ db, store }), { message: /does not answer/ })
  store.delete = remove
  t.deepEqual(await left(db, [segmentId]), [])
  t.is(await sweep({ db, store }), 0, 'ten minutes have not passed')
  await db('segments').whereIn('id', stuck).update({ zero_since: db.fn.now() })
  while ((await sweep({ db, store })) > 0);
  t.deepEqual(await left(db, stuck), [])
})
