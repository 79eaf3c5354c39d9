import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { connect as connectPlain, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { BSON, type Db, type Document, type MongoClient } from 'mongodb'
import { mongoEngine } from '../../../../activities/databases/engines/mongo/mongo.ts'
import type { RemoteEngine } from '../../../../activities/databases/port.ts'
import { mongoStandIn } from '../../../../policy/databases/mongo.ts'
import { databaseEngineContract, type EngineUnderTest, within } from '../../../contracts/database-engine.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { engineContainer } from '../../../kit/databases/engine-container.ts'
import { mongoClient, mongoCustomer, mongoOptions } from '../../../kit/databases/mongo-customer.ts'
import { privateImage } from '../../../kit/databases/private-image.ts'

// All of it runs on the stand-in for MongoDB (SecantusDB), which is an image that can be made here. For MongoDB itself: mongo-member.test.ts.

const standIn: EngineUnderTest = {
  adapter: mongoEngine,
  engine: 'mongo',
  version: '8',
  image: mongoStandIn.image('8'),
  standIn: true,
  memoryMb: 512,
  connect: mongoCustomer,
  connectPlainly: (remote, password) =>
    mongoClient(remote, { ...mongoOptions(remote, password), tls: false, ca: undefined }),
  connectAsPlatform: async (remote, password) => {
    const auth = { username: 'berth_platform', password }
    await (await mongoClient(remote, { ...mongoOptions(remote, password), auth })).close()
  },
  platformByPassword: true,
  // Two look after the server.
  connectionsOfCustomer: 3,
}

const database = databaseEngineContract(test.serial, 'mongo (stand-in)', () => standIn)

test.serial('the volumes that the image of MongoDB declares take nothing from the disk of a database', async t => {
  // As its Dockerfile has them, for a user of its own.
  const image = privateImage(t, mongoStandIn.image('8'))
  await image.make('mkdir -p /data/db /data/configdb && chown 999:999 /data/db /data/configdb', [
    '/data/db',
    '/data/configdb',
  ])
  const choice = { adapter: mongoEngine, engine: 'mongo', version: '8', memoryMb: 512 } as const
  const container = await engineContainer({ ...choice, image: image.name })
  t.teardown(container.clean)
  await container.settle()
  await container.initialise()
  const { mode, uid } = await stat(join(container.folders.data, 'mongo', 'mongod.key'))
  t.deepEqual([mode & 0o777, uid], [0o400, container.traits.uid])
})

test.serial('mongo (stand-in): a command waits for the disk by its write concern, if it writes', async t => {
  const { runJob } = await database()
  const cases: [name: string, document: Document, waits: boolean][] = [
    ['insert', {}, true],
    ['insert', { writeConcern: { w: 'majority' } }, true],
    ['insert', { writeConcern: { w: 'majority', j: null } }, true],
    ['insert', { writeConcern: { w: 1, j: true } }, true],
    ['insert', { writeConcern: { w: 'majority', j: false } }, false],
    ['insert', { writeConcern: { w: 1 } }, false],
    ['insert', { writeConcern: { w: 1, j: null } }, false],
    ['insert', { writeConcern: 'x' }, true],
    ['insert', { autocommit: false }, false],
    ['commitTransaction', { autocommit: false }, true],
    ['aggregate', { pipeline: [{ $match: {} }] }, false],
    ['aggregate', { pipeline: [{ $match: {} }, { $out: 'other' }] }, true],
    ['aggregate', { pipeline: [{ $merge: { into: 'other' } }] }, true],
    ['aggregate', { pipeline: 'x' }, false],
  ]
  const program = `
import json, sys
from mongod_writes import WRITES, waits_for_the_disk
for name, document, waits in json.loads(sys.argv[1]):
  assert waits_for_the_disk(name, document) is waits, (name, document)
assert {'createSearchIndexes', 'updateSearchIndex', 'dropSearchIndex'} <= set(WRITES)`
  await t.notThrowsAsync(runJob(['python3', '-c', program, JSON.stringify(cases)]))
  const db = (await customer(t)).db('default')
  const malformed = { insert: 'malformed', documents: [{}], writeConcern: 'x' }
  await t.throwsAsync(db.command(malformed), { message: /writeConcern.* is the wrong type/ })
})

/** The customer's client now, which is closed after the test. */
async function customer(t: ExecutionContext): Promise<MongoClient> {
  const { remote, secrets } = await database()
  const client = await mongoClient(remote, mongoOptions(remote, secrets().password))
  t.teardown(() => client.close())
  return client
}

const codeOf = (db: Db, command: Document): Promise<number | string> =>
  db.command(command).then(
    () => 'allowed',
    error => error.code,
  )

const role = { role: 'root', db: 'admin' }
const user = { _id: 'admin.evil', user: 'evil', db: 'admin', roles: [role] }

/** Commands by which a customer would administer the server, its users or its replica set, or run code in it. */
const escapes: Document[] = [
  ...[{ shutdown: 1 }, { shutdown: 1, force: true }, { fsync: 1, lock: true }, { killOp: 1, op: 1 }, { logRotate: 1 }],
  ...[
    { createUser: 'evil', pwd: 'x', roles: ['root'] },
    { createUser: 'evil', pwd: 'x', roles: [] },
  ],
  ...[{ updateUser: 'default', pwd: 'x' }, { updateUser: 'default', roles: ['root'] }, { dropUser: 'default' }],
  ...[{ updateUser: 'berth_platform', pwd: 'x' }, { dropUser: 'berth_platform' }, { dropAllUsersFromDatabase: 1 }],
  ...[
    { grantRolesToUser: 'default', roles: ['root'] },
    { createRole: 'evil', privileges: [], roles: ['root'] },
  ],
  ...[{ usersInfo: 1 }, { usersInfo: 'berth_platform', showCredentials: true }],
  ...[
    { insert: 'system.users', documents: [user] },
    { delete: 'system.users', deletes: [{ q: {}, limit: 0 }] },
  ],
  ...[{ update: 'system.users', updates: [{ q: {}, u: { $set: { roles: [role] } } }] }, { drop: 'system.users' }],
  ...[{ findAndModify: 'system.users', query: {}, remove: true }, { create: 'system.users' }],
  ...[{ replSetStepDown: 60, force: true }, { replSetReconfig: {}, force: true }, { replSetInitiate: {} }],
  ...[{ killAllSessions: [] }, { killAllSessionsByPattern: [] }, { rotateCertificates: 1 }, { applyOps: [] }],
  ...[
    { setParameter: 1, logLevel: 5 },
    { configureFailPoint: 'failCommand', mode: 'alwaysOn', data: {} },
  ],
  ...[{ eval: '1' }, { $eval: '1' }, { find: 'numbers', filter: { $where: 'true' } }],
  ...[{ 'secantusAdmin.backupArchive': '/data/x' }, { 'secantusAdmin.restoreArchive': '/data/x' }],
  ...[{ 'secantusAdmin.archiveBaseSnapshot': 1 }, { 'secantusAdmin.pruneOplog': 1 }],
]

/** Not authorized; no such command; no scripts. */
const refusals = [13, 59, 6_108_304]

test.serial('mongo (stand-in): a customer can change its data, and neither users nor the server', async t => {
  const client = await customer(t)
  const admin = client.db('admin')
  const users = () => admin.collection('system.users').find().toArray()
  const before = await users()
  for (const command of escapes)
    t.true(refusals.includes((await codeOf(admin, command)) as number), JSON.stringify(command))
  await client
    .db('shop')
    .collection('things')
    .insertOne({ roles: [role] })
  const into = { db: 'admin', coll: 'system.users' }
  for (const stage of [{ $out: into }, { $merge: { into } }])
    await codeOf(client.db('shop'), { aggregate: 'things', pipeline: [stage], cursor: {} })
  await codeOf(admin, { renameCollection: 'shop.things', to: 'admin.system.users', dropTarget: true })
  await codeOf(admin, { bulkWrite: 1, ops: [{ insert: 0, document: user }], nsInfo: [{ ns: 'admin.system.users' }] })
  await codeOf(admin, { dropDatabase: 1 })
  t.deepEqual(await users(), before)
  const text = JSON.stringify(before)
  t.regex(text, /berth_platform/)
  t.notRegex(text, /credentials|storedKey/)
  const script = { $function: { body: 'function () { return 1 }', args: [], lang: 'js' } }
  const pipeline = [{ $addFields: { made: script } }]
  t.not(await codeOf(client.db('default'), { aggregate: 'numbers', pipeline, cursor: {} }), 'allowed')
  for (const command of [{ serverStatus: 1 }, { listDatabases: 1 }, { currentOp: 1 }, { dbStats: 1 }])
    t.is(await codeOf(admin, command), 'allowed', JSON.stringify(command))
})

test.serial('mongo (stand-in): who has not logged in learns that it serves, and nothing else', async t => {
  const { remote } = await database()
  const { auth: _, ...anonymous } = mongoOptions(remote, '')
  const client = await mongoClient(remote, anonymous)
  t.teardown(() => client.close())
  for (const command of [{ createUser: 'evil', pwd: 'x', roles: ['root'] }, { listDatabases: 1 }, { getLog: 'global' }])
    t.is(await codeOf(client.db('admin'), command), 13, JSON.stringify(command))
})

test.serial('mongo (stand-in): it is a replica set of one, known by the address that clients know', async t => {
  const { traits } = await database()
  const client = await customer(t)
  const { host, port } = traits.advertised
  const hello = await client.db('admin').command({ hello: 1 })
  t.like(hello, { setName: 'rs0', me: `${host}:${port}`, hosts: [`${host}:${port}`], isWritablePrimary: true })
  const things = client.db('shop').collection<{ _id: number }>('bought')
  await things.insertOne({ _id: 0 })
  const changes = things.watch()
  t.teardown(() => changes.close())
  const next = changes.next()
  await client.withSession(session =>
    session.withTransaction(async () => {
      await things.insertOne({ _id: 1 }, { session })
      await things.insertOne({ _id: 2 }, { session })
    }),
  )
  await t.throwsAsync(
    client.withSession(session =>
      session.withTransaction(async () => {
        await things.insertOne({ _id: 3 }, { session })
        throw new Error('changed my mind')
      }),
    ),
  )
  t.is(await things.countDocuments(), 3)
  t.like(await within(next, 'no change arrives'), { operationType: 'insert' })
})

test.serial('mongo (stand-in): a new password is in no profile that the customer has the server write', async t => {
  const { rotate, remote, secrets } = await database()
  const before = await customer(t)
  await before.db('admin').command({ profile: 2 })
  await rotate()
  const after = await mongoClient(remote, mongoOptions(remote, secrets().password))
  t.teardown(() => after.close())
  const admin = after.db('admin')
  const profile = JSON.stringify(await admin.collection('system.profile').find().toArray())
  t.regex(profile, /dropUser/)
  t.false(profile.includes(secrets().password))
  await admin.command({ profile: 0 })
})

test.serial('mongo (stand-in): a login that began with the former password does not outlive it', async t => {
  const { rotate, remote, secrets } = await database()
  const { ask, ended } = await rawClient(t, remote)
  const nonce = randomBytes(18).toString('base64')
  const bare = `n=default,r=${nonce}`
  const start = { saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: new BSON.Binary(Buffer.from(`n,,${bare}`)) }
  const { payload, conversationId } = await ask({ ...start, $db: 'admin' })
  const first = (payload as BSON.Binary).toString('utf8')
  const last = scramProof(secrets().password, bare, first)
  await rotate()
  await within(ended, 'the connection is open still')
  await t.throwsAsync(
    ask({ saslContinue: 1, conversationId, payload: new BSON.Binary(Buffer.from(last)), $db: 'admin' }),
  )
})

test.serial(
  'mongo (stand-in): clients that take all connections, or finish no handshake, do not lock Berth out',
  async t => {
    const { locally, rotate, remote, secrets } = await database()
    const silent: Socket[] = []
    t.teardown(() => {
      for (const socket of silent) socket.destroy()
    })
    const open = () =>
      new Promise<Socket>((done, failed) => {
        const socket = connectPlain({ host: remote.host, port: remote.port }, () => done(socket)).on('error', failed)
        silent.push(socket)
      })
    for (let number = 0; number < 5; number++) await open()
    t.is(await mongoEngine.login(remote, secrets().password), 'accepted')
    for (let number = 0; number < 90; number++) await open().catch(() => {}) // more than are let through
    await t.throwsAsync(mongoEngine.login(remote, secrets().password))
    await locally(mongoEngine.ping)
    await rotate()
    for (const socket of silent) socket.destroy()
    const answer = () => mongoEngine.login(remote, secrets().password).catch(() => 'none')
    await comesTrue(async () => (await answer()) === 'accepted')
  },
)

/** The last message of a client that proves its password (RFC 7677), after the server's first one. */
function scramProof(password: string, bare: string, first: string): string {
  const { r = '', s = '', i = '' } = Object.fromEntries(first.split(',').map(part => [part[0], part.slice(2)]))
  const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const key = hmac(pbkdf2Sync(password, Buffer.from(s, 'base64'), Number(i), 32, 'sha256'), 'Client Key')
  const end = `c=biws,r=${r}`
  const signature = hmac(createHash('sha256').update(key).digest(), `${bare},${first},${end}`)
  return `${end},p=${Buffer.from(key.map((byte, index) => byte ^ signature[index]!)).toString('base64')}`
}

/** A connection over TLS that says what the test says. */
async function rawClient(t: ExecutionContext, { host, port, authority, servername }: RemoteEngine) {
  const socket = connect({ host, port, ca: authority, servername })
  t.teardown(() => socket.destroy())
  socket.on('error', () => socket.destroy())
  const ended = new Promise<void>(done => socket.once('close', () => done()))
  const ask = (command: Document): Promise<Document> =>
    new Promise((done, failed) => {
      const document = BSON.serialize(command)
      const head = Buffer.alloc(21)
      head.writeInt32LE(head.length + document.length, 0)
      head.writeInt32LE(2013, 12)
      socket.once('data', reply => done(BSON.deserialize(reply.subarray(21))))
      ended.then(() => failed(new Error('The connection has ended.')), failed)
      socket.write(Buffer.concat([head, document]))
    })
  return { ask, ended }
}
