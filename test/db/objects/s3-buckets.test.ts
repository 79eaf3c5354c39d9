import test from 'ava'
import { createUser } from '../../../db/accounts/accounts.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { createS3Bucket, deleteS3Bucket, isS3Bucket, listS3Buckets } from '../../../db/objects/s3-buckets.ts'
import { newId } from '../../../policy/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { put } from '../../kit/objects/objects.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

const newOwner = async (db: Db): Promise<string> =>
  (await createUser(db, { name: 'Ana', email: `${newId()}@example.org`, plan: 'hobby-1' })).id
const create = (db: Db, ownerId: string, name: string, max = 100) =>
  transaction(db, trx => createS3Bucket(trx, ownerId, name, max))
const remove = (db: Db, ownerId: string, name: string) => transaction(db, trx => deleteS3Bucket(trx, ownerId, name))
const nameIn = (ownerId: string, bucket: string, key = 'a') => ({ ownerId, bucket: `x-${bucket}` as const, key })

/** Whether a statement of this database waits for a row or a transaction. */
const waits = (db: Db) => async () => {
  const { rows } = await db.raw(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows.length > 0
}

test('a bucket is created once, listed by the bytes of its name, and deleted once', async t => {
  const { db } = await database
  const [ana, ben] = [await newOwner(db), await newOwner(db)]
  for (const name of ['b', 'a-b', 'a.b']) t.is(await create(db, ana, name), 'created')
  t.is(await create(db, ana, 'b'), 'exists')
  t.deepEqual(
    (await listS3Buckets(db, ana)).map(({ name }) => name),
    ['a-b', 'a.b', 'b'],
  )
  t.deepEqual(await listS3Buckets(db, ben), [])
  t.deepEqual([await isS3Bucket(db, ana, 'b'), await isS3Bucket(db, ben, 'b')], [true, false])
  t.is(await remove(db, ben, 'b'), 'unknown')
  t.deepEqual([await remove(db, ana, 'b'), await remove(db, ana, 'b')], ['deleted', 'unknown'])
})

test('the number of buckets of an account is limited under concurrency', async t => {
  const { db } = await database
  const ana = await newOwner(db)
  const made = await Promise.all(Array.from({ length: 8 }, (_, n) => create(db, ana, `bucket-${n}`, 3)))
  t.is(made.filter(one => one === 'created').length, 3)
  t.is(made.filter(one => one === 'too many').length, 5)
})

test('a bucket with an object is not empty, and one that does not exist takes none', async t => {
  const { db } = await database
  const ana = await newOwner(db)
  await t.throwsAsync(put(db, nameIn(ana, 'none'), 'x'), { message: /the bucket x-none does not exist/ })
  await create(db, ana, 'some')
  await put(db, nameIn(ana, 'some'), 'x')
  t.is(await remove(db, ana, 'some'), 'not empty')
  t.true(await isS3Bucket(db, ana, 'some'))
})

// Alone: they look at who waits in this database.
test.serial('a deletion waits for a write that has begun, and then finds its object', async t => {
  const { db } = await database
  const ana = await newOwner(db)
  await create(db, ana, 'busy')
  const writing = await db.transaction()
  await writing('objects').insert(rowIn(ana, 'busy'))
  const deletion = remove(db, ana, 'busy')
  await Promise.race([deletion, comesTrue(waits(db))])
  await writing.commit()
  t.is(await deletion, 'not empty')
})

test.serial('a write waits for a deletion that has begun, and is then refused', async t => {
  const { db } = await database
  const ana = await newOwner(db)
  await create(db, ana, 'going')
  const deleting = await db.transaction()
  t.is(await deleteS3Bucket(deleting, ana, 'going'), 'deleted')
  const write = db('objects')
    .insert(rowIn(ana, 'going'))
    .then(
      () => 'written',
      error => error.code,
    )
  await Promise.race([write, comesTrue(waits(db))])
  await deleting.commit()
  t.is(await write, '23503')
})

const rowIn = (ownerId: string, bucket: string) => ({
  owner_id: ownerId,
  bucket: `x-${bucket}`,
  key: 'a',
  generation: newId(),
  birth: newId(),
  size: 0,
  content_type: 'text/plain',
  etag: 'e',
})
