import test from 'ava'
import { transaction } from '../../../db/database.ts'
import { readUsage } from '../../../db/objects/blob-usage.ts'
import type { OpenedRange } from '../../../db/objects/manifests.ts'
import { copyObject } from '../../../db/objects/object-changes.ts'
import { putObject } from '../../../db/objects/object-puts.ts'
import type { NewObjectPart } from '../../../db/objects/object-segments.ts'
import {
  findObject,
  manifestOf,
  openObject,
  removeExpired,
  removeObject,
  removeObjects,
  storeObject,
} from '../../../db/objects/objects.ts'
import * as segments from '../../../db/objects/segments.ts'
import { CodedError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import type { ObjectName } from '../../../policy/objects/object-names.ts'
import { drawnPart, put } from '../../kit/objects/objects.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const past = new Date(Date.now() - 60_000)

async function place(key = 'a/b.txt') {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  const name: ObjectName = { ownerId, bucket: 'public', key }
  const segment = (id: string) => db('segments').where({ id }).first('state', 'refs', 'zero_since')
  return { db, ownerId, name, segment }
}

const refusal = (code: string) => ({ instanceOf: CodedError, code })

test('a new object refers to its segment and is found with its manifest', async t => {
  const { db, name, segment } = await place()
  const changes = { metadata: { of: 'me' }, cacheControl: 'no-cache', originalName: 'b.txt' }
  const { object, replaced, segmentId } = await put(db, name, 'hello', { changes })
  t.false(replaced)
  t.like(object, { bucket: 'public', key: 'a/b.txt', size: 5, metadata: { of: 'me' }, original_name: 'b.txt' })
  t.deepEqual(await findObject(db, name), object)
  const parts = await manifestOf(db, object.generation)
  t.like(parts[0], { segmentId, startsAt: 0, segmentFrom: 0, length: 5, segmentSize: 5, crc32: 7 })
  t.deepEqual(await openObject(db, name), { object, parts: parts.map(part => ({ ...part, bytes: null })) })
  t.like(await segment(segmentId), { state: 'stored', refs: 1, zero_since: null })
})

test('a small body is stored in its row, read with it, and stays while it has references', async t => {
  const { db, name, segment } = await place()
  const bytes = Buffer.from('small')
  const body = { size: 5, sha256: 'a', md5: 'b', crc32: 7 }
  const small = () => ({ segmentId: newId(), length: 5, body, bytes })
  const object = { ...name, contentType: 'text/plain', etag: 'b' }
  const [one, two, three] = [small(), small(), small()]
  await putObject(db, object, one)
  t.like((await openObject(db, name))!.parts, [{ segmentId: one.segmentId, inline: true, bytes }])
  t.like(await segment(one.segmentId), { state: 'stored', refs: 1, zero_since: null })
  await t.throwsAsync(putObject(db, object, two), refusal('OBJECT_ALREADY_EXISTS'))
  t.is(await segment(two.segmentId), undefined)
  const copy = { ...name, key: 'copy' }
  await transaction(db, trx => copyObject(trx, name, copy))
  t.true((await putObject(db, object, three, { overwrite: true })).replaced)
  t.like(await segment(one.segmentId), { refs: 1 })
  t.deepEqual((await openObject(db, copy))!.parts[0]!.bytes, bytes)
  const pieces = [
    await drawnPart(db, 'in the store'),
    { ...small(), bytes: Buffer.from('first') },
    { ...small(), bytes: Buffer.from('after') },
  ]
  await transaction(db, trx => storeObject(trx, { ...object, key: 'mixed' }, pieces))
  t.deepEqual(
    (await openObject(db, { ...name, key: 'mixed' }))!.parts.map(part => part.bytes?.toString()),
    [undefined, 'first', 'after'],
  )
})

test('a range opens the parts that it touches, and numbers open theirs', async t => {
  const { db, name } = await place()
  const texts = ['abc', '', 'defg', 'h']
  const inline = { segmentId: newId(), length: 4, body: { size: 4, sha256: 'a', md5: 'b', crc32: 7 } }
  const parts: NewObjectPart[] = []
  for (const text of texts) parts.push(await drawnPart(db, text))
  parts[2] = { ...inline, bytes: Buffer.from('defg') }
  await transaction(db, trx => storeObject(trx, { ...name, contentType: 'text/plain', etag: 'e-4' }, parts))
  const opened = async (range: OpenedRange) =>
    (await openObject(db, name, range))!.parts.map(part => [part.startsAt, part.length, part.bytes?.toString()])
  const all = [
    [0, 3, undefined],
    [3, 0, undefined],
    [3, 4, 'defg'],
    [7, 1, undefined],
  ]
  t.deepEqual(await opened({}), all)
  t.deepEqual(await opened({ bytes: { from: 0, to: 2 } }), [all[0]])
  t.deepEqual(await opened({ bytes: { from: 2, to: 3 } }), all.slice(0, 3))
  t.deepEqual(await opened({ bytes: { from: 6, to: 7 } }), [all[2], all[3]])
  t.deepEqual(await opened({ bytes: { from: 8, to: 9 } }), [])
  t.deepEqual(await opened({ numbers: { from: 2, to: 3 } }), [all[1], all[2]])
  t.deepEqual(await opened({ numbers: { from: 5, to: 5 } }), [])
  // Of concurrent calls each gets its own.
  t.deepEqual(await Promise.all([{ bytes: { from: 0, to: 0 } }, {}, { numbers: { from: 4, to: 4 } }].map(opened)), [
    [all[0]],
    all,
    [all[3]],
  ])
})

test('concurrent puts share a statement; one that is refused fails alone', async t => {
  const { db, ownerId, name } = await place()
  await put(db, name, 'there')
  const keys = ['a', 'b', 'b', name.key, 'with\u0000nul', 'c']
  const tries = await Promise.allSettled(keys.map(key => put(db, { ...name, key }, `body of ${key}`)))
  const actual = tries.map(one => (one.status === 'fulfilled' ? 'stored' : one.reason.code))
  t.deepEqual(
    [actual[0], ...actual.slice(1, 3).sort(), ...actual.slice(3)],
    [
      ...['stored', 'OBJECT_ALREADY_EXISTS', 'stored', 'OBJECT_ALREADY_EXISTS'],
      ...['22P05', 'stored'], // what Postgres says of a text that it cannot keep
    ],
  )
  t.like(await readUsage(db, ownerId), { objects: 4 })
})

test('a name is taken once; with overwrite the new bytes replace the old ones', async t => {
  const { db, name, segment } = await place()
  const first = await put(db, name, 'first')
  await t.throwsAsync(put(db, name, 'second'), refusal('OBJECT_ALREADY_EXISTS'))
  t.like(await findObject(db, name), { generation: first.object.generation })
  const second = await put(db, name, 'second', { overwrite: true })
  t.true(second.replaced)
  t.is(second.object.birth, first.object.birth)
  t.not(second.object.generation, first.object.generation)
  t.like(await segment(first.segmentId), { refs: 0, state: 'stored' })
  t.truthy((await segment(first.segmentId))?.zero_since)
  t.deepEqual(await manifestOf(db, first.object.generation), [])
})

test('of twenty concurrent uploads of one new name one is stored, and the others leave nothing', async t => {
  const { db, ownerId, name } = await place()
  const tries = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => put(db, name, `body ${n}`)))
  t.is(tries.filter(one => one.status === 'fulfilled').length, 1)
  const held = await db('object_parts as p')
    .join('objects as o', 'o.generation', 'p.generation')
    .where({ owner_id: ownerId })
  t.is(held.length, 1)
})

test('an object of many parts has one manifest, with a reference for each part', async t => {
  const { db, name, segment } = await place()
  const [a, b] = [await drawnPart(db, 'aaa'), await drawnPart(db, 'bbbb')]
  const again = { segmentId: b.segmentId, length: 2, segmentFrom: 1 }
  const object = { ...name, contentType: 'text/plain', etag: 'x-3' }
  const { object: stored } = await transaction(db, trx => storeObject(trx, object, [a, b, again]))
  t.is(stored.size, 9)
  const parts = await manifestOf(db, stored.generation)
  t.deepEqual(
    parts.map(part => [part.startsAt, part.segmentFrom, part.length]),
    [
      [0, 0, 3],
      [3, 0, 4],
      [7, 1, 2],
    ],
  )
  t.like(await segment(b.segmentId), { refs: 2, state: 'stored' })
  await transaction(db, trx => removeObject(trx, name))
  t.like(await segment(a.segmentId), { refs: 0 })
  t.like(await segment(b.segmentId), { refs: 0 })
})

test('no object is stored on a segment that the sweep has taken', async t => {
  const { db, name } = await place()
  const part = await drawnPart(db, 'late')
  const object = { ...name, contentType: 'text/plain', etag: 'x' }
  t.true(await segments.markSegmentForDeletion(db, part.segmentId))
  await t.throwsAsync(putObject(db, object, part), refusal('UPLOAD_FAILED'))
  await put(db, name, 'earlier')
  await t.throwsAsync(putObject(db, object, part, { overwrite: true }), refusal('UPLOAD_FAILED'))
  t.like(await findObject(db, name), { size: 7 })
})

test('an expired object is not found, frees its name, and is deleted later', async t => {
  const { db, name } = await place()
  const old = await put(db, name, 'old', { changes: { expiresAt: past } })
  t.is(await findObject(db, name), undefined)
  t.is(await openObject(db, name), undefined)
  t.is(await transaction(db, trx => removeObject(trx, name)), undefined)
  const { replaced, object } = await put(db, name, 'new')
  t.false(replaced)
  t.not(object.birth, old.object.birth)
  t.deepEqual(await transaction(db, trx => removeExpired(trx, [name])), [])
  const other = { ...name, key: 'other' }
  await put(db, other, 'old', { changes: { expiresAt: past } })
  t.is((await transaction(db, trx => removeExpired(trx, [name, other]))).length, 1)
})

test('many names are deleted in one call; missing ones are not reported', async t => {
  const { db, name } = await place()
  const names = ['x', 'y', 'z'].map(key => ({ ...name, key }))
  for (const one of names.slice(0, 2)) await put(db, one, one.key)
  const removed = await transaction(db, trx => removeObjects(trx, names))
  t.deepEqual(removed.map(row => row.key).sort(), ['x', 'y'])
  t.deepEqual(await transaction(db, trx => removeObjects(trx, names)), [])
})
