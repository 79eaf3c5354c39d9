import { createHash } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import { BSON, type Document, type MongoClient } from 'mongodb'
import { DumpPrevented } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { asPlatform, mongoEngine } from '../../../../activities/databases/engines/mongo/mongo.ts'
import { collectionsOf } from '../../../../activities/databases/engines/mongo/mongo-collections.ts'
import { limitOfDefinitions } from '../../../../activities/databases/engines/read-limits.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { mongoStandIn } from '../../../../policy/databases/mongo.ts'
import { type ContentsUnderTest, databaseContentsContract } from '../../../contracts/database-contents.ts'
import type { DigestsOfCopy } from '../../../kit/databases/copies.ts'
import type { EngineContainer } from '../../../kit/databases/engine-container.ts'
import { mongoClient, mongoOptions } from '../../../kit/databases/mongo-customer.ts'

// All of it runs on the stand-in for MongoDB (SecantusDB), which is an image that can be made here.

async function customer<T>(
  { remote, secrets }: EngineContainer,
  work: (client: MongoClient) => Promise<T>,
): Promise<T> {
  const client = await mongoClient(remote, mongoOptions(remote, secrets().password))
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

const kinds: Document[] = [
  {
    _id: 1,
    decimal: BSON.Decimal128.fromString('0.1000'),
    long: BSON.Long.MAX_VALUE,
    int: new BSON.Int32(1),
    double: new BSON.Double(1),
  },
  {
    _id: 'text',
    pattern: new BSON.BSONRegExp('^a"\\/b', 'im'),
    bytes: new BSON.Binary(every, 0x80),
    uuid: new BSON.UUID('0189c9f8-0000-7000-8000-000000000001'),
  },
  {
    _id: new BSON.ObjectId('0123456789abcdef01234567'),
    date: new Date(-1),
    far: new Date('9999-12-31T23:59:59.999Z'),
    stamp: new BSON.Timestamp({ t: 7, i: 9 }),
  },
  {
    _id: { nested: [1, { deep: null }] },
    nul: 'a\0b',
    empty: '',
    'ä — 日本': '🐘',
    min: new BSON.MinKey(),
    max: new BSON.MaxKey(),
  },
  {
    _id: new BSON.Double(2.5),
    nan: Number.NaN,
    inf: Number.NEGATIVE_INFINITY,
    zero: -0,
    code: new BSON.Code('x', { y: 1 }),
    arr: [],
    doc: {},
  },
  // The language would put the number first.
  {
    _id: 7,
    mixed: new Map([
      ['b', 1],
      ['1', 2],
      ['a', 3],
    ]),
  },
  { _id: 8, large: 'x'.repeat(3 * 1024 * 1024) },
]

const numbers = (count: number) => Array.from({ length: count }, (_, _id) => ({ _id, text: `number ${_id}` }))

const oddName = `odd "name" %2F/ü 'x' + & (y)*!`

async function write(client: MongoClient, order: <T>(list: T[]) => T[]): Promise<void> {
  const steps = [
    async () => void (await client.db('default').collection('kinds').insertMany(order(kinds))),
    async () => {
      const things = client.db('default').collection('numbers')
      await things.insertMany(order<Document>(numbers(2500)))
      await things.createIndex({ text: 1, _id: -1 }, { name: 'by text', unique: true })
      await things.createIndex({ gone: 1 }, { expireAfterSeconds: 3600, sparse: true })
      await things.createIndex({ part: 1 }, { partialFilterExpression: { part: { $gt: 5 } } })
    },
    async () =>
      void (await client
        .db('shop')
        .collection(oddName)
        .insertOne({ _id: 1 as never, a: 1 })),
    async () => void (await client.db('shop').createCollection('empty')),
    async () => {
      await client.db('shop').createCollection('checked', {
        validator: {
          $jsonSchema: { required: ['name'], properties: { name: { bsonType: 'string', pattern: '^[a-z]+$' } } },
        },
        validationAction: 'error',
        collation: { locale: 'en', strength: 2 },
      })
      await client
        .db('shop')
        .collection('checked')
        .insertOne({ _id: 1 as never, name: 'lower' })
      await client
        .db('shop')
        .command({ insert: 'checked', documents: [{ _id: 2, other: 1 }], bypassDocumentValidation: true })
    },
    async () => {
      await client.db('shop').createCollection('last', { capped: true, size: 1_000_000, max: 100 })
      for (const _id of [3, 1, 2]) await client.db('shop').collection<{ _id: number }>('last').insertOne({ _id })
    },
    async () =>
      void (await client.db('default').createCollection('seen', {
        viewOn: 'numbers',
        pipeline: [{ $match: { _id: { $lt: 5 }, free: { $not: /^x/i } } }, { $sort: { _id: -1 } }],
      })),
  ]
  for (const step of order(steps)) await step()
}

async function found(t: ExecutionContext, database: EngineContainer): Promise<void> {
  await customer(database, async client => {
    const own = client.db('default')
    const raw = await own.collection('kinds').find({}, { raw: true }).sort({ _id: 1 }).toArray()
    const bytes = raw.map(each => Buffer.from(each as unknown as Uint8Array).toString('hex'))
    t.deepEqual(bytes.sort(), kinds.map(each => Buffer.from(BSON.serialize(each)).toString('hex')).sort())
    t.is(await own.collection('numbers').countDocuments(), 2500)
    t.deepEqual(
      (await own.collection<{ _id: number }>('seen').find().toArray()).map(({ _id }) => _id),
      [4, 3, 2, 1, 0],
    )
    const indexes = await own.collection('numbers').indexes()
    t.like(
      indexes.find(({ name }) => name === 'by text'),
      { key: { text: 1, _id: -1 }, unique: true },
    )
    t.is(await client.db('shop').collection(oddName).countDocuments(), 1)
    const checked = client.db('shop').collection('checked')
    t.is(await checked.countDocuments(), 2)
    await t.throwsAsync(checked.insertOne({ name: 'UPPER' }), { message: /failed validation/ })
    const names = (await client.db('shop').listCollections().toArray()).map(({ name }) => name).sort()
    t.deepEqual(names, ['checked', 'empty', 'last', oddName].sort())
    const last = await client.db('shop').collection<{ _id: number }>('last').find().toArray()
    t.deepEqual(
      last.map(({ _id }) => _id),
      [3, 1, 2],
    )
  })
}

const change =
  (database: string, command: Document) =>
  (container: EngineContainer): Promise<void> =>
    customer(container, async client => void (await client.db(database).command(command)))

const set = (_id: unknown, fields: Document) =>
  change('default', { update: 'kinds', updates: [{ q: { _id }, u: { $set: fields } }] })

const mongo: ContentsUnderTest = {
  adapter: mongoEngine,
  contents: contentsOf('mongo'),
  engine: 'mongo',
  version: '8',
  image: mongoStandIn.image('8'),
  standIn: true,
  memoryMb: 512,
  files: ['default/kinds.bson', 'default/kinds.metadata.json', 'SHA256SUMS'],
  digestOfDump: true,
  found,
  write: database => customer(database, client => write(client, list => list)),
  writeOtherwise: database => customer(database, client => write(client, list => [...list].reverse())),
  changes: {
    'the digits of a decimal': set(1, { decimal: BSON.Decimal128.fromString('0.100') }),
    'the type of a number': set(1, { int: new BSON.Double(1) }),
    'the options of a pattern': set('text', { pattern: new BSON.BSONRegExp('^a"\\/b', 'i') }),
    'the subtype of bytes': set('text', { bytes: new BSON.Binary(every, 0x81) }),
    'a millisecond': set(new BSON.ObjectId('0123456789abcdef01234567'), { date: new Date(0) }),
    'the order of fields': set(7, {
      mixed: new Map([
        ['1', 2],
        ['b', 1],
        ['a', 3],
      ]),
    }),
    'null for an empty text': set({ nested: [1, { deep: null }] }, { empty: null }),
    'a document': change('default', { insert: 'numbers', documents: [{ _id: 9999, text: 'new' }] }),
    'a document less': change('default', { delete: 'numbers', deletes: [{ q: { _id: 0 }, limit: 1 }] }),
    'an index less': change('default', { dropIndexes: 'numbers', index: 'by text' }),
    'an index': change('default', { createIndexes: 'kinds', indexes: [{ key: { b: 1, a: 1 }, name: 'new' }] }),
    'a validator': change('shop', { collMod: 'checked', validator: { name: 1 } }),
    'a view less': change('default', { drop: 'seen' }),
    'a view of the same name': change('default', { create: 'seen', viewOn: 'numbers', pipeline: [] }),
    'an empty collection less': change('shop', { drop: 'empty' }),
    'a document that comes later': change('shop', { insert: 'last', documents: [{ _id: 0 }] }),
    'a database less': change('shop', { dropDatabase: 1 }),
  },
  async secrets({ secrets }) {
    return Object.values(secrets()).map(text => createHash('sha256').update(text).digest('hex'))
  },
}

const { serving, copying } = databaseContentsContract(test.serial, 'mongo (stand-in)', () => mongo)

test.serial('mongo (stand-in): more definitions than its host can have in memory are not read', async t => {
  const database = await serving()
  await customer(database, async client => {
    const validator = { $expr: { $ne: ['$a', 'x'.repeat(700_000)] } }
    for (const name of ['a', 'b']) await client.db('default').createCollection(name, { validator })
  })
  const read = (max: number) =>
    database.locally(local => asPlatform(local, {}, ({ client }) => collectionsOf(client, limitOfDefinitions(max))))
  t.is((await read(2 * MiB)).length, 2)
  const message = 'The database cannot be compared: what it defines has more than 1 MB.'
  await t.throwsAsync(read(MiB), { instanceOf: DumpPrevented, message })
})

test.serial('mongo (stand-in): a dump is one moment, while others write', async t => {
  const database = await serving()
  const large = 'x'.repeat(1024 * 1024)
  await customer(database, async client => {
    for (const name of ['a', 'm', 'z']) await client.db('default').createCollection(name)
    for (let number = 0; number < 20; number++) await client.db('default').collection('m').insertOne({ large })
  })
  let ended = false
  let written = 0
  const writing = customer(database, async client => {
    const [first, last] = ['a', 'z'].map(name => client.db('default').collection<{ _id: number }>(name))
    for (; !ended; written++)
      await client.withSession(session =>
        session.withTransaction(async () => {
          await first!.insertOne({ _id: written }, { session })
          await last!.insertOne({ _id: written }, { session })
        }),
      )
  })
  while (written < 5) await pause(10)
  const before = written
  const dumpEnded = async () => {
    t.true(written > before)
    ended = true
    await writing
  }
  const check = async (copy: EngineContainer, digests: DigestsOfCopy) => {
    t.is(digests.dump, digests.copy)
    const [first, last] = await customer(copy, async client => [
      await client.db('default').collection('a').countDocuments(),
      await client.db('default').collection('z').countDocuments(),
    ])
    t.true(first! >= before)
    t.is(first, last)
  }
  await copying(database, check, dumpEnded)
})
