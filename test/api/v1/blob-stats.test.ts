import test from 'ava'
import { transaction } from '../../../db/database.ts'
import { listReceiptLines, openReceipt } from '../../../db/objects/blob-receipts.ts'
import { removeObject } from '../../../db/objects/objects.ts'
import { foldAllUsage, readMonthUsage, recountAllUsage, sampleUsage } from '../../../db/objects/usage-upkeep.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { newId } from '../../../policy/ids.ts'
import { storageBill } from '../../../policy/objects/storage-bill.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { put } from '../../kit/objects/objects.ts'

const prices = { perExtraGb: 0.5, perThousandObjects: 2 }
const api = testApi({
  services: ({ config }) => ({ config: { ...config, blob: { ...config.blob, prices } }, blobUsage: new TtlCache(0) }),
})
const patient = testApi()

const stats = async (who: TestUser | string) => (await api().blobAs(who).get('/v1/account/stats')).body.response
const store = (user: TestUser, key: string, text: string) =>
  put(api().db, { ownerId: user.id, bucket: 'private', key }, text)

test.serial('the account’s statistics show what is stored, what is included, and what it would cost', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const included = 5 * 1024 ** 3
  t.like(await stats(ana), { usage: { objects: 0, storage: 0 }, plan: { included }, size: 0, totalEstimate: 0 })
  for (const n of [1, 2, 3, 4, 5]) await store(ana, `${n}.txt`, 'abc')
  const said = await stats(ana)
  t.deepEqual(said.usage, { objects: 5, storage: 15 })
  t.deepEqual(said.billing, { extraStorage: 0, storagePrice: 0, objectsPrice: 0.01, totalEstimate: 0.01 })
  const { objects, size, storagePrice, objectsPrice, totalEstimate } = said
  t.deepEqual({ objects, size }, { objects: 5, size: 15 })
  t.deepEqual({ ...said.billing, storagePrice, objectsPrice, totalEstimate }, said.billing)
  t.is(said.month.days, new Date().getUTCDate())
})

test('storage beyond the plan is charged by its average', t => {
  const gb = 1024 ** 3
  t.deepEqual(storageBill({ objects: 2500, averageStorage: 12.5 * gb }, 5 * gb, prices), {
    extraStorage: 7.5 * gb,
    storagePrice: 3.75,
    objectsPrice: 5,
    totalEstimate: 8.75,
  })
})

test.serial('the average of the month counts bytes for as long as they were stored', async t => {
  const { db } = api()
  const ana = await api().makeUser()
  await store(ana, 'a.txt', 'a'.repeat(1000))
  await foldAllUsage(db)
  const now = new Date()
  const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth())
  const elapsed = now.getTime() - month
  // As if it had been there since the middle of the month so far, and had not been looked at since.
  await db('blob_usage')
    .where({ owner_id: ana.id })
    .update({ sampled_at: new Date(month + elapsed / 2) })
  const before = (await readMonthUsage(db, ana.id)).averageStorage
  t.true(Math.abs(before - 500) < 20, `${before}`)
  await sampleUsage(db)
  const after = (await readMonthUsage(db, ana.id)).averageStorage
  t.true(Math.abs(after - 500) < 20, `${after}`)
  const days = await db('blob_usage_days').where({ owner_id: ana.id }).orderBy('day')
  const spans = days.map(({ byte_seconds }) => Number(byte_seconds) / 1000)
  t.true(Math.max(...spans) <= 86_400)
  t.true(Math.abs(spans.reduce((sum, span) => sum + span, 0) - elapsed / 2000) < 60)
  await sampleUsage(db)
  const again = await db('blob_usage_days').where({ owner_id: ana.id })
  t.is(again.length, days.length)
  t.true(Math.abs(again.reduce((sum, { byte_seconds }) => sum + Number(byte_seconds) / 1000, 0) - elapsed / 2000) < 60)
})

test.serial('usage that was changed by hand is corrected, and the receipt contains the difference', async t => {
  const { db } = api()
  const ana = await api().makeUser()
  await store(ana, 'a.txt', 'abcde')
  await store(ana, 'b.txt', 'abc')
  await transaction(db, trx => removeObject(trx, { ownerId: ana.id, bucket: 'private', key: 'b.txt' }))
  await foldAllUsage(db)
  t.is((await db('usage_deltas').where({ owner_id: ana.id })).length, 0)
  t.like(await stats(ana), { usage: { objects: 1, storage: 5 } })
  await db('blob_usage').where({ owner_id: ana.id }).update({ objects: 9, bytes: 900 })
  const id = newId()
  await openReceipt(db, id, 'recount')
  t.is(await recountAllUsage(db, id), 1)
  t.like(await stats(ana), { usage: { objects: 1, storage: 5 } })
  t.like(await listReceiptLines(db, id, 10), [{ subject: ana.id, why: 'the usage was off by 8 objects and 895 bytes' }])
  t.is(await recountAllUsage(db, id), 0)
})

test.serial('an answer is cached for a while', async t => {
  const ana = await patient().makeUser()
  const ask = async () => (await patient().blobAs(ana).get('/v1/account/stats')).body.response.objects
  t.is(await ask(), 0)
  await put(patient().db, { ownerId: ana.id, bucket: 'private', key: 'a.txt' }, 'abc')
  t.is(await ask(), 0)
})

test.serial('only sessions and keys with blob:read may read the statistics of their account', async t => {
  const ana = await api().makeUser()
  await store(ana, 'a.txt', 'abc')
  const reader = (await api().makeKey(ana, { scopes: ['blob:read'] })).key
  const writer = (await api().makeKey(ana, { scopes: ['blob:write'] })).key
  const { token } = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response
  t.is((await stats(reader)).objects, 1)
  t.is((await stats(ana.session)).objects, 1)
  t.is((await stats(await api().makeUser())).objects, 0)
  const ask = (who: string | undefined) => api().blobAs(who).get('/v1/account/stats')
  t.like(await ask(writer), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.like(await ask(token), { status: 403, body: { code: 'UPLOAD_TOKEN_NOT_ALLOWED' } })
  t.like(await ask(undefined), { status: 401, body: { code: 'ACCESS_DENIED' } })
})
