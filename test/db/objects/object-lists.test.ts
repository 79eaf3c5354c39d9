import test from 'ava'
import { type ListQuery, listObjects } from '../../../db/objects/object-lists.ts'
import { successor } from '../../../policy/objects/key-ranges.ts'
import type { ListPosition } from '../../../policy/objects/list-cursors.ts'
import type { Bucket } from '../../../policy/objects/object-names.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const all: Bucket[] = ['public', 'private', 'legacy']

/** An account with objects that have no bytes: lists do not look at those. */
async function account(keys: readonly (readonly [Bucket, string, Date?])[]) {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  const row = { owner_id: ownerId, size: 1, content_type: 'text/plain', etag: 'e' }
  await db.batchInsert(
    'objects',
    keys.map(([bucket, key, expires_at], n) => ({
      ...{ ...row, bucket, key, expires_at: expires_at ?? null },
      ...{ generation: `${ownerId}/${n}`, birth: `${n}` },
    })),
    1000,
  )
  const list = (query: Partial<ListQuery> = {}) =>
    listObjects(db, { ownerId, buckets: all, prefix: '', limit: 1000, ...query })
  /** Every page of a listing, as what it tells in its order. */
  async function pages(query: Partial<ListQuery>): Promise<string[][]> {
    const reported: string[][] = []
    let after: ListPosition | undefined
    do {
      const page = await list({ ...query, after })
      reported.push([...page.objects.map(object => `${object.bucket} ${object.key}`), ...page.folders])
      after = page.next
    } while (after)
    return reported
  }
  return { db, ownerId, list, pages }
}

/** As every S3 store orders keys, and JavaScript does not. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

test('keys are sorted by bytes, and a prefix matches literally', async t => {
  const keys = [
    'a',
    'a!',
    'a/b',
    'a0',
    'A',
    'a%',
    'a_',
    'é',
    '\u{ff5e}',
    '\u{1f600}',
    '\u{10ffff}x',
    '\u{d7ff}',
    '\u{d7ff}z',
    '\u{e000}',
  ]
  const { list } = await account(keys.map(key => ['public', key] as const))
  const sorted = [...keys].sort(byBytes)
  const keysOf = async (prefix: string) => (await list({ prefix })).objects.map(object => object.key)
  t.deepEqual(await keysOf(''), sorted)
  for (const prefix of ['a', 'a%', 'a_', '\u{d7ff}', '\u{10ffff}', 'zz'])
    t.deepEqual(
      await keysOf(prefix),
      sorted.filter(key => key.startsWith(prefix)),
      prefix,
    )
})

test('exactly the texts with a prefix sort between it and its successor', t => {
  t.is(successor('p/'), 'p0')
  t.is(successor('a\u{d7ff}'), 'a\u{e000}')
  t.is(successor('a\u{10ffff}'), 'b')
  for (const prefix of ['', '\u{10ffff}']) t.true(byBytes(successor(prefix), '\u{10ffff}'.repeat(256)) > 0)
})

test('pages of every size list everything once, in one order, from the requested buckets', async t => {
  const keys = Array.from({ length: 60 }, (_, n) => [all[n % 3]!, `k${String(n % 20).padStart(2, '0')}`] as const)
  const { pages } = await account(keys)
  for (const buckets of [all, ['private'] as Bucket[], ['public', 'legacy'] as Bucket[]]) {
    const whole = (await pages({ buckets })).flat()
    const expected = keys.filter(([bucket]) => buckets.includes(bucket)).map(([bucket, key]) => `${bucket} ${key}`)
    t.deepEqual([...whole].sort(), expected.sort())
    for (const limit of [1, 2, 7, 60]) {
      const reported = await pages({ buckets, limit })
      t.deepEqual(reported.flat(), whole)
      t.true(reported.every(page => page.length > 0 && page.length <= limit))
    }
  }
})

test('folders are listed once each, across buckets and pages, with the files of their level', async t => {
  const keys = ['a/1', 'a/2', 'a/b/3', 'a-', 'a0', 'b', 'c/1', 'c/d/e/f', 'z//', 'z//y', '/']
  const { pages, list } = await account(keys.flatMap(key => all.map(bucket => [bucket, key] as const)))
  const top = await list({ delimiter: '/' })
  t.deepEqual(top.folders, ['/', 'a/', 'c/', 'z/'])
  t.deepEqual(
    top.objects.map(object => object.key),
    ['a-', 'a-', 'a-', 'a0', 'a0', 'a0', 'b', 'b', 'b'],
  )
  const inside = await list({ delimiter: '/', prefix: 'a/', buckets: ['public'] })
  t.deepEqual([inside.folders, inside.objects.map(object => object.key)], [['a/b/'], ['a/1', 'a/2']])
  t.deepEqual((await list({ delimiter: '/', prefix: 'z/' })).folders, ['z//'])
  t.deepEqual((await list({ delimiter: '//' })).folders, ['z//'])
  for (const limit of [1, 2, 5])
    t.deepEqual((await pages({ delimiter: '/', limit })).flat().sort(), (await pages({ delimiter: '/' })).flat().sort())
  t.deepEqual(await list({ limit: 0 }), { objects: [], folders: [], next: undefined })
})

test('expired objects are not listed, nor are folders with nothing else', async t => {
  const [past, future] = [new Date(Date.now() - 1000), new Date(Date.now() + 3_600_000)]
  const { list } = await account([
    ['public', 'a/1', past],
    ['public', 'b/1', past],
    ['public', 'b/2', future],
    ['public', 'c', past],
    ['public', 'd', future],
  ])
  t.deepEqual((await list({ delimiter: '/' })).folders, ['b/'])
  t.deepEqual(
    (await list()).objects.map(object => object.key),
    ['b/2', 'd'],
  )
})
