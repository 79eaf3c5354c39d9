import { basename } from 'node:path'
import type { Connection, RowDataPacket } from 'mysql2'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import type { DatabaseEngine, LocalEngine } from '../../port.ts'
import { accountStatements, dropAccount, selectConnections, selectShadows, socketHost } from './mysql-account.ts'
import { mysqlConnection, platformConnection } from './mysql-connection.ts'
import { dataFolder, mysqlCommand, mysqlInitialise, mysqlSettings, socketFile } from './mysql-settings.ts'

/** A dozen statements, most of which change tables of the server. */
const changeSeconds = 20
const lockSeconds = 3

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
  // The server's id, which it makes at its start.
  template: { folder: basename(dataFolder), without: ['auto.cnf'], individualize: async () => {} },
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
      await endConnections(run)
    })
    return 'in effect'
  },

  async login({ host, port, authority, servername }, password) {
    // The driver verifies the name of its `host`. A new object for each login: with the same one it would resume a session and verify nothing.
    const ssl = { ca: authority, rejectUnauthorized: true, verifyIdentity: true }
    const options = { host: servername, user: customerUser, password, ssl }
    return mysqlConnection({ host, port }, options, { secrets: [password] }, async connection => {
      try {
        await runOn(connection)('SELECT 1')
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

  async admitWrites(engine) {
    const { readOnly } = engine.traits
    await asPlatform(engine, { seconds: changeSeconds }, async run => {
      await run(`SET SESSION lock_wait_timeout = ${lockSeconds}`)
      const change = (expected?: string) => run(`SET GLOBAL read_only = ${readOnly ? 'ON' : 'OFF'}`, expected)
      await change('ER_LOCK_WAIT_TIMEOUT')
      const [row] = await run('SELECT @@GLOBAL.read_only AS value')
      if (Boolean(row?.value) === readOnly) return
      // A statement, or a lock of tables, that lasts keeps it from changing.
      await endConnections(run)
      await change()
    })
  },
}

/** Resolves to the rows of a statement; an error with this code is no rows. */
type Run = (statement: string, expected?: string) => Promise<RowDataPacket[]>

/** Ends every connection but those of the platform. */
async function endConnections(run: Run): Promise<void> {
  for (const { Id: id, Host: host } of await run(selectConnections))
    if (host !== socketHost) await run(`KILL ${Number(id)}`, 'ER_NO_SUCH_THREAD')
}

function asPlatform<T>(engine: LocalEngine, options: { seconds?: number }, work: (run: Run) => Promise<T>): Promise<T> {
  return platformConnection(engine, options, connection => work(runOn(connection)))
}

const runOn =
  (connection: Connection): Run =>
  (statement, expected) =>
    new Promise((done, failed) =>
      connection.query<RowDataPacket[]>(statement, (error, rows) => {
        if (!error) done(rows)
        else if (expected && codeOf(error) === expected) done([])
        else failed(error)
      }),
    )

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? ''
