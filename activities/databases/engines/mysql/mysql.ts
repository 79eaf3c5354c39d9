import { connect, type TcpNetConnectOpts } from 'node:net'
import { type ConnectionOptions, createConnection, type RowDataPacket } from 'mysql2'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import type { DatabaseEngine, LocalEngine } from '../../port.ts'
import { type EngineCall, engineCall } from '../engine-call.ts'
import { accountStatements, dropAccount, selectConnections, selectShadows, socketHost } from './mysql-account.ts'
import { mysqlCommand, mysqlInitialise, mysqlSettings, platformUsers, socketFile } from './mysql-settings.ts'

const connectSeconds = 5
/** A dozen statements, most of which change tables of the server. */
const changeSeconds = 20

/** A wrong password, or an account that is missing or locked, or has no password; no account at all that may come from elsewhere. */
const refusals = new Set([
  'ER_ACCESS_DENIED_ERROR',
  'ER_ACCESS_DENIED_NO_PASSWORD_ERROR',
  'ER_ACCOUNT_HAS_BEEN_LOCKED',
  'ER_HOST_NOT_PRIVILEGED',
])

export const mysqlEngine: DatabaseEngine = {
  settings: mysqlSettings,
  command: mysqlCommand,
  initialise: mysqlInitialise,
  // The accounts of the initialisation cannot log in over a network.
  socketName: () => socketFile,

  async ping(engine) {
    await asPlatform(engine, {}, run => run('SELECT 1'))
  },

  async setPassword(engine) {
    await asPlatform(engine, { seconds: changeSeconds }, async run => {
      for (const { user, host } of await run(selectShadows)) await run(dropAccount(user, host))
      for (const statement of accountStatements(engine.secrets.password)) await run(statement)
      // Also those of users that the customer made, and those that log in just now, with a password that was valid when they began.
      for (const { Id: id, Host: host } of await run(selectConnections))
        if (host !== socketHost) await run(`KILL ${Number(id)}`, 'ER_NO_SUCH_THREAD')
    })
    return 'in effect'
  },

  async login({ host, port, authority, servername }, password) {
    // The driver verifies the name of its `host`. A new object for each login: with the same one it would resume a session and verify nothing.
    const ssl = { ca: authority, rejectUnauthorized: true, verifyIdentity: true }
    const options = { host: servername, user: customerUser, password, ssl }
    return conversation({ host, port }, options, { secrets: [password] }, async run => {
      try {
        await run('SELECT 1')
        return 'accepted'
      } catch (error) {
        if (refusals.has(codeOf(error))) return 'refused'
        throw error
      }
    })
  },

  async reloadCertificate(engine) {
    await asPlatform(engine, {}, run => run('ALTER INSTANCE RELOAD TLS'))
    return 'in effect'
  },
}

/** Resolves to the rows of a statement; an error with this code is no rows. */
type Run = (statement: string, expected?: string) => Promise<RowDataPacket[]>

function asPlatform<T>(
  { socket, secrets }: LocalEngine,
  { seconds }: { seconds?: number },
  work: (run: Run) => Promise<T>,
): Promise<T> {
  const user = process.getuid?.() === 0 ? platformUsers.root : platformUsers.engine
  return conversation({ path: socket }, { user }, { secrets: Object.values(secrets), seconds }, work)
}

function conversation<T>(
  to: { path: string } | { host: string; port: number },
  options: ConnectionOptions,
  call: Omit<EngineCall, 'engine'>,
  work: (run: Run) => Promise<T>,
): Promise<T> {
  // Of ours, so that it is closed at once: the driver only says goodbye.
  const stream = connect(to as TcpNetConnectOpts)
  const talk = () =>
    new Promise<T>((resolve, reject) => {
      const connection = createConnection({ ...options, stream, connectTimeout: connectSeconds * 1000 })
      connection.on('error', reject)
      const run: Run = (statement, expected) =>
        new Promise((done, failed) =>
          connection.query<RowDataPacket[]>(statement, (error, rows) => {
            if (!error) done(rows)
            else if (expected && codeOf(error) === expected) done([])
            else failed(error)
          }),
        )
      work(run).then(resolve, reject)
    })
  return engineCall({ engine: 'mysql', ...call }, talk, () => stream.destroy())
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? ''
