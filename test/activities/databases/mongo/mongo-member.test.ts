import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { BSON } from 'mongodb'
import { issueCertificate, makeAuthority } from '../../../../activities/certificates/authority.ts'
import { DumpPrevented } from '../../../../activities/databases/contents.ts'
import { mongoEngine } from '../../../../activities/databases/engines/mongo/mongo.ts'
import { mongoContents } from '../../../../activities/databases/engines/mongo/mongo-contents.ts'
import { type DatabaseTraits, EngineUnavailable } from '../../../../activities/databases/port.ts'
import { type Answer, refusal, scriptedMongod } from '../../../kit/databases/scripted-mongod.ts'
import { ownFolder } from '../../../kit/folders.ts'

// MongoDB itself, which no registry brings here: its settings, and the conversations that its stand-in does not have. The replies are those
// of its sources (src/mongo/db/repl), which were read.

const traits: DatabaseTraits = {
  ...{ id: 'a'.repeat(32), engine: 'mongo', version: '8', memoryMb: 2048, port: 20_001, uid: 30_001, standIn: false },
  readOnly: false,
  ...{ hostname: 'db-a.apps.localhost', advertised: { host: 'db-a.apps.localhost', port: 20_001 } },
}
const secrets = { password: 'of-customer', platformPassword: randomBytes(24).toString('base64url') }
const hello = { ok: 1, minWireVersion: 0, maxWireVersion: 25, isreplicaset: true }

async function mongod(t: ExecutionContext, answer: Answer) {
  const socket = join(ownFolder(t), 'engine.sock')
  const names = { commonName: 'db', names: ['localhost'], addresses: [] }
  const pair = await issueCertificate(await makeAuthority(), { kind: 'server', ...names, days: 1 })
  const server = await scriptedMongod(
    socket,
    { key: pair.privateKey, cert: pair.certificate },
    { password: secrets.platformPassword, answer },
  )
  t.teardown(server.close)
  return { local: { socket, secrets, traits }, commands: server.commands }
}

const nameOf = (command: object): string => Object.keys(command)[0]!

test('MongoDB becomes the only member of its replica set, under the address that clients know, and then serves', async t => {
  let primary = false
  const { local, commands } = await mongod(t, command => {
    if (nameOf(command) === 'hello') return { ...hello, isWritablePrimary: primary }
    if (nameOf(command) === 'replSetInitiate') return { ok: 1 }
    return refusal(59, 'CommandNotFound')
  })
  await t.throwsAsync(mongoEngine.ping(local), { instanceOf: EngineUnavailable, message: /not the primary yet/ })
  t.like(commands[0], {
    replSetInitiate: { _id: 'rs0', members: [{ _id: 0, host: 'db-a.apps.localhost:20001' }] },
  })
  primary = true
  await mongoEngine.ping(local)
  t.is(commands.length, 1)
})

test('MongoDB that is known by another address now takes it on', async t => {
  const former = { _id: 'rs0', version: 3, members: [{ _id: 0, host: 'db-a.old.example:20001' }], settings: { x: 1 } }
  const { local, commands } = await mongod(t, (command, user) => {
    if (nameOf(command) === 'hello') return { ...hello, isWritablePrimary: false }
    if (user !== 'berth_platform') return refusal(13, 'Unauthorized')
    if (nameOf(command) === 'replSetGetStatus') return refusal(93, 'InvalidReplicaSetConfig')
    return nameOf(command) === 'replSetGetConfig' ? { ok: 1, config: former } : { ok: 1 }
  })
  await t.throwsAsync(mongoEngine.ping(local), { instanceOf: EngineUnavailable, message: /not the primary yet/ })
  t.deepEqual(commands.map(nameOf), ['replSetInitiate', 'replSetGetStatus', 'replSetGetConfig', 'replSetReconfig'])
  const members = [{ _id: 0, host: 'db-a.apps.localhost:20001' }]
  t.like(commands[3], { replSetReconfig: { ...former, version: 4, members }, force: true })
})

test('MongoDB that is being elected is waited for', async t => {
  const { local, commands } = await mongod(t, (command, user) => {
    if (nameOf(command) === 'hello') return { ...hello, isWritablePrimary: false }
    return user === 'berth_platform' ? { ok: 1, myState: 2 } : refusal(13, 'Unauthorized')
  })
  await t.throwsAsync(mongoEngine.ping(local), { instanceOf: EngineUnavailable, message: /not the primary yet/ })
  t.deepEqual(commands.map(nameOf), ['replSetInitiate', 'replSetGetStatus'])
})

test('MongoDB gets users with the rights that each needs, and certificates', async t => {
  let users = 0
  const { local, commands } = await mongod(t, (command, user) => {
    if (nameOf(command) === 'hello') return { ...hello, isWritablePrimary: true }
    if (!user && users > 0) return refusal(13, 'Unauthorized')
    if (nameOf(command) === 'dropUser' && users < 2) return refusal(11, 'UserNotFound')
    users += nameOf(command) === 'createUser' ? 1 : 0
    return { ok: 1 }
  })
  t.is(await mongoEngine.setPassword(local), 'in effect')
  t.like(commands[0], { createUser: 'berth_platform', pwd: secrets.platformPassword, roles: ['root'], $db: 'admin' })
  t.like(commands[2], {
    ...{ createUser: 'default', pwd: secrets.password, mechanisms: ['SCRAM-SHA-256'], $db: 'admin' },
    roles: ['readWriteAnyDatabase', 'dbAdminAnyDatabase', 'clusterMonitor'],
  })
  t.is(await mongoEngine.setPassword(local), 'in effect')
  t.is(await mongoEngine.reloadCertificate(local), 'in effect')
  const first = ['createUser', 'dropUser', 'createUser']
  t.deepEqual(commands.map(nameOf), [...first, ...first, 'rotateCertificates'])
})

test('MongoDB is read as of one moment, but for capped collections, which it reads only as they are', async t => {
  const { local, commands } = await mongod(t, command => answerOfContents(command))
  t.regex(await mongoContents.digest(local), /^[0-9a-f]{64}$/)
  const concerns = commands.filter(command => 'find' in command).map(({ find, readConcern }) => [find, readConcern])
  t.deepEqual(concerns, [
    ['first', { level: 'snapshot' }],
    ['last', { level: 'majority' }],
    ['other', { level: 'snapshot', atClusterTime: moment }],
  ])
})

test('a capped collection of MongoDB that is overwritten while it is read keeps a snapshot from being made', async t => {
  const { local } = await mongod(t, command =>
    command.find === 'last' ? refusal(136, 'CappedPositionLost') : answerOfContents(command),
  )
  const message = 'The capped collection shop.last is overwritten faster than it can be read.'
  await t.throwsAsync(mongoContents.digest(local), { instanceOf: DumpPrevented, message })
})

const moment = new BSON.Timestamp({ t: 9, i: 1 })

/** Of a server with three collections, each with one document, of which `last` is capped. */
function answerOfContents(command: Record<string, unknown>): Record<string, unknown> {
  const cursor = (firstBatch: object[]) => ({ ok: 1, cursor: { id: BSON.Long.ZERO, ns: 'shop.x', firstBatch } })
  switch (nameOf(command)) {
    case 'hello':
      return { ...hello, isWritablePrimary: true, logicalSessionTimeoutMinutes: 30, setName: 'rs0' }
    case 'listDatabases':
      return { ok: 1, databases: [{ name: 'shop' }] }
    case 'listCollections':
      return cursor(
        ['first', 'last', 'other'].map(name => ({
          ...{ name, type: 'collection', options: name === 'last' ? { capped: true, size: 4096 } : {} },
        })),
      )
    case 'listIndexes':
      return cursor([{ v: 2, key: { _id: 1 }, name: '_id_' }])
    case 'find': {
      const found = cursor([{ _id: 1 }])
      return { ...found, cursor: { ...found.cursor, atClusterTime: moment } }
    }
    default:
      return { ok: 1 }
  }
}

test('an engine that is not available is queried once, and the caller decides whether to repeat that', async t => {
  const socket = join(ownFolder(t), 'engine.sock')
  let connections = 0
  const server = createServer(each => {
    connections++
    each.destroy()
  }).listen(socket)
  t.teardown(() => void server.close())
  await once(server, 'listening')
  for (const [number, call] of [mongoEngine.ping, mongoEngine.setPassword, mongoEngine.reloadCertificate].entries()) {
    await t.throwsAsync(call({ socket, secrets, traits: { ...traits, standIn: true } }), {
      instanceOf: EngineUnavailable,
    })
    t.is(connections, number + 1)
  }
})

test('the settings of MongoDB and of its stand-in differ where only one of them knows an option', t => {
  const official = mongoEngine.settings(traits, secrets)
  const standIn = mongoEngine.settings({ ...traits, standIn: true }, secrets)
  const lines = (text: string) => text.split('\n').map(line => line.trim())
  const only = (one: string, other: string) => lines(one).filter(line => !lines(other).includes(line))
  const [text, imitation] = [official['mongod.conf']!, standIn['mongod.conf']!]
  t.deepEqual(only(imitation, text), ['dbPath: /data/db', 'berthMember: db-a.apps.localhost:20001'])
  t.deepEqual(only(text, imitation), [
    'dbPath: /data/mongo',
    'keyFile: /data/mongo/mongod.key',
    '# Hundreds of MB about its own performance.',
    'diagnosticDataCollectionEnabled: false',
  ])
  for (const line of ['cacheSizeGB: 0.80', 'mode: requireTLS', 'authorization: enabled', 'javascriptEnabled: false'])
    t.true(lines(text).includes(line), line)
  t.true(mongoEngine.settings({ ...traits, memoryMb: 512 }, secrets)['mongod.conf']!.includes('cacheSizeGB: 0.25'))
  t.deepEqual(mongoEngine.command(traits), ['mongod', '--config', '/etc/berth/mongod.conf'])
  t.deepEqual(mongoEngine.initialise(traits), [
    ['install', '-D', '-m', '0400', '/etc/berth/mongod.key', '/data/mongo/mongod.key'],
  ])
  t.regex(official['mongod.key']!, /^[A-Za-z0-9+/]{80,1000}={0,2}\n$/)
  t.false(official['mongod.key']!.includes(secrets.platformPassword))
  t.is(mongoEngine.settings(traits, { ...secrets, password: 'other' })['mongod.key'], official['mongod.key'])
})
