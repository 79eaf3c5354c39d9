import test from 'ava'
import { blobUpkeep } from '../../../activities/blob-upkeep.ts'
import { checkReceiptLines, openReceipt, writeReceiptLines } from '../../../db/objects/blob-receipts.ts'
import { readUsage } from '../../../db/objects/blob-usage.ts'
import { foldAllUsage, recountAllUsage } from '../../../db/objects/usage-upkeep.ts'
import { newId } from '../../../policy/ids.ts'
import { upkeepTimes } from '../../../policy/objects/blob-upkeep.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FailingStore } from '../../kit/fakes/failing-store.ts'
import { put } from '../../kit/objects/objects.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const storing = FailingStore.open()
test.serial.after.always('remove the store', async () => (await storing).close())
const database = testDatabase()

const lines = (count: number) =>
  Array.from({ length: count }, () => ({ ownerId: null, subject: newId(), why: 'a test', bytes: 1 }))

test.serial('an account that cannot be folded or counted again stops no other', async t => {
  const { db } = await database
  const ids = [(await rows(db).user()).id, (await rows(db).user()).id].sort()
  const [wrong, right] = ids as [string, string]
  await put(db, { ownerId: right, bucket: 'public', key: 'a' }, 'text')
  // More bytes than a number can have, and an account that does not exist.
  const most = '9000000000000000000'
  for (let n = 0; n < 2; n++) await db('usage_deltas').insert({ owner_id: wrong, objects: 0, bytes: most })
  await t.throwsAsync(foldAllUsage(db), { message: /out of range/ })
  t.deepEqual(await db('usage_deltas').where({ owner_id: right }), [])
  t.deepEqual(await readUsage(db, right), { objects: 1, bytes: 4 })
  await db('blob_usage').where({ owner_id: right }).update({ bytes: 5 })
  const receipt = newId()
  await openReceipt(db, receipt, 'recount')
  await t.throwsAsync(recountAllUsage(db, receipt), { message: /out of range/ })
  t.deepEqual(await readUsage(db, right), { objects: 1, bytes: 4 })
  await db('usage_deltas').where({ owner_id: wrong }).delete()
})

test.serial('the lines of a receipt are checked in batches, each with a commit of its own', async t => {
  const { db } = await database
  const receipt = newId()
  await openReceipt(db, receipt, 'reclaim')
  await writeReceiptLines(db, receipt, lines(5))
  const proved = async () =>
    (await db('blob_receipt_lines').where({ receipt_id: receipt }).whereNotNull('proof').orderBy('id').pluck('id'))
      .length
  const [last] = await db('blob_receipt_lines').where({ receipt_id: receipt }).orderBy('id', 'desc').limit(1)
  const other = await db.transaction()
  await other('blob_receipt_lines').where({ id: last.id }).forUpdate().first()
  const checking = checkReceiptLines(db, receipt, 2)
  await comesTrue(async () => (await proved()) === 4)
  await other.rollback()
  await checking
  t.is(await proved(), 5)
})

test.serial('a receipt is closed although its check fails', async t => {
  const { db } = await database
  const upkeep = blobUpkeep(db, await storing, upkeepTimes)
  const receipt = newId()
  await upkeep.openReceipt(receipt, 'reclaim')
  await db.raw('alter table blob_receipt_lines rename to elsewhere')
  await t.throwsAsync(upkeep.closeReceipt(receipt, 'It failed.'), { message: /blob_receipt_lines/ })
  await db.raw('alter table elsewhere rename to blob_receipt_lines')
  const [row] = await db('blob_receipts').where({ id: receipt })
  t.truthy(row.ended_at)
  t.is(row.failure, 'It failed.')
})
