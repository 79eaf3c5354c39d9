import { type Db, MongoClient, type MongoClientOptions, MongoServerError } from 'mongodb'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import type { DatabaseEngine, LocalEngine } from '../../port.ts'
import { type EngineCall, engineCall } from '../engine-call.ts'
import {
  memberOf,
  mongoCommand,
  mongoInitialise,
  mongoSettings,
  platformUser,
  replicaSet,
  socketFile,
} from './mongo-settings.ts'

/** The stand-in is slow. */
const defaultSeconds = 10
const changeSeconds = 20

/** Codes of the servers' errors. */
const codes = {
  ...{ userMissing: 11, unauthorized: 13, wrongPassword: 18, notInReplicaSet: 93, userExists: 51_003 },
  roleExists: 51_002,
} as const

const mechanisms = ['SCRAM-SHA-256']

/** Everything in every database, but no users, and nothing of the server itself. */
const customerRoles = ['readWriteAnyDatabase', 'dbAdminAnyDatabase', 'clusterMonitor']

/** While nothing may be added: everything can be read, and removed. */
const reducingRole = 'berth_reduce'
const reducingRoles = ['readAnyDatabase', 'clusterMonitor', reducingRole]
const reducing = ['remove', 'dropCollection', 'dropDatabase', 'dropIndex', 'compact']

/** The adapter of MongoDB, and of the stand-in for it (policy/databases/mongo.ts). */
export const mongoEngine: DatabaseEngine = {
  settings: mongoSettings,
  command: mongoCommand,
  initialise: mongoInitialise,
  // Until the first user exists, only processes at the socket are admitted.
  socketName: socketFile,

  async ping(engine) {
    const { isWritablePrimary } = await locally(engine, null, {}, admin => admin.command({ hello: 1 }))
    if (!isWritablePrimary) await beElected(engine)
  },

  async setPassword(engine) {
    const { password, platformPassword } = engine.secrets
    // Refused once there are users: the platform's was the first.
    await locally(engine, null, {}, admin =>
      command(admin, { createUser: platformUser, pwd: platformPassword, roles: ['root'], mechanisms }, [
        codes.unauthorized,
        codes.userExists,
      ]),
    )
    await asPlatform(engine, { seconds: changeSeconds }, async admin => {
      await makeCustomer(admin, engine, password)
    })
    return 'in effect'
  },

  async login({ host, port, authority, servername }, password) {
    const options = { tls: true, ca: authority, servername, ...credentials(customerUser, password) }
    return conversation(`${host}:${port}`, options, { secrets: [password] }, async admin => {
      const reply = await command(admin, { ping: 1 }, [codes.wrongPassword])
      return reply ? 'accepted' : 'refused'
    })
  },

  async reloadCertificate(engine) {
    await asPlatform(engine, {}, admin => admin.command({ rotateCertificates: 1 }))
    return 'in effect'
  },

  async admitWrites(engine) {
    await asPlatform(engine, { seconds: changeSeconds }, async admin => {
      const roles = await rolesOf(admin, engine)
      // The stand-in gives the sessions of a user what it had when they began.
      if (engine.traits.standIn) return makeCustomer(admin, engine, engine.secrets.password)
      await admin.command({ updateUser: customerUser, roles })
    })
  },
}

/** A new user of the same name, so that the sessions of the former one end. */
async function makeCustomer(admin: Db, engine: LocalEngine, password: string): Promise<void> {
  const roles = await rolesOf(admin, engine)
  await command(admin, { dropUser: customerUser }, [codes.userMissing])
  await command(admin, { createUser: customerUser, pwd: password, roles, mechanisms })
}

async function rolesOf(admin: Db, { traits }: LocalEngine): Promise<string[]> {
  if (!traits.readOnly) return customerRoles
  const privileges = [{ resource: { db: '', collection: '' }, actions: reducing }]
  await command(admin, { createRole: reducingRole, privileges, roles: [] }, [codes.roleExists])
  return reducingRoles
}

/**
 * MongoDB serves as the elected member of a replica set, which it enters under the address that its clients know: the first time, and
 * when that address has changed. The stand-in is elected from its start. Always rejects: the next `ping` sees the outcome.
 */
async function beElected(engine: LocalEngine): Promise<never> {
  const members = [{ _id: 0, host: memberOf(engine.traits) }]
  const waits = new Error('it is not the primary yet')
  await locally(engine, null, {}, async admin => {
    const entered = await command(admin, { replSetInitiate: { _id: replicaSet, members } }, [codes.unauthorized])
    if (entered) throw waits
  })
  return asPlatform(engine, {}, async admin => {
    if (await command(admin, { replSetGetStatus: 1 }, [codes.notInReplicaSet])) throw waits
    const { config } = await admin.command({ replSetGetConfig: 1 })
    await admin.command({ replSetReconfig: { ...config, version: config.version + 1, members }, force: true })
    throw waits
  })
}

/** Resolves to the reply; to null for an error with one of these codes. */
async function command(admin: Db, document: object, expected: number[] = []): Promise<object | null> {
  try {
    return await admin.command(document)
  } catch (error) {
    if (error instanceof MongoServerError && expected.includes(Number(error.code))) return null
    throw error
  }
}

const credentials = (username: string, password: string): MongoClientOptions => ({
  auth: { username, password },
  authSource: 'admin',
  authMechanism: 'SCRAM-SHA-256',
})

type Call = Omit<EngineCall, 'engine' | 'secrets' | 'signal'>

/** A conversation as the platform's user. Rejects with EngineUnavailable. */
export const asPlatform = <T>(engine: LocalEngine, call: Call, work: (admin: Db) => Promise<T>): Promise<T> =>
  locally(engine, credentials(platformUser, engine.secrets.platformPassword), call, work)

function locally<T>(
  { socket, secrets, traits, signal }: LocalEngine,
  user: MongoClientOptions | null,
  call: Call,
  work: (admin: Db) => Promise<T>,
): Promise<T> {
  // MongoDB wants TLS at its socket too; who is at the other end is not in question there.
  const tls = traits.standIn ? {} : { tls: true, tlsAllowInvalidCertificates: true }
  const everySecret = { ...call, signal, secrets: Object.values(secrets) as string[] }
  return conversation(encodeURIComponent(socket), { ...tls, ...user }, everySecret, work)
}

/** One client, which ends at the first sign that its server is not available: by itself the driver would try again. */
function conversation<T>(
  address: string,
  options: MongoClientOptions,
  call: Omit<EngineCall, 'engine'>,
  work: (admin: Db) => Promise<T>,
): Promise<T> {
  const milliseconds = (call.seconds ?? defaultSeconds) * 1000
  const client = new MongoClient(`mongodb://${address}/`, {
    directConnection: true,
    maxPoolSize: 1,
    retryReads: false,
    retryWrites: false,
    serverMonitoringMode: 'poll',
    serverSelectionTimeoutMS: milliseconds,
    connectTimeoutMS: milliseconds,
    socketTimeoutMS: milliseconds,
    ...options,
  })
  const talk = () =>
    new Promise<T>((resolve, reject) => {
      client.on('serverHeartbeatFailed', ({ failure }) => reject(failure))
      work(client.db('admin')).then(resolve, reject)
    })
  const close = () => {
    void client.close().catch(ignoreError('nothing uses it any more'))
    // By itself it takes leave of the server first, and waits for its answers.
    if (call.signal?.aborted) (client as { topology?: { close(): void } }).topology?.close()
  }
  return engineCall({ engine: 'mongo', seconds: defaultSeconds, ...call }, talk, close)
}
