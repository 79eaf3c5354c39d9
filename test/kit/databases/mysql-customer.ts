import { connect, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { type Connection, type ConnectionOptions, createConnection } from 'mysql2'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { Customer } from '../../contracts/database-engine.ts'

/** The options with which a customer connects: a name for the certificate, and an address in addition. */
export const mysqlOptions = ({ host, port, authority, servername }: RemoteEngine, password: string) =>
  ({
    ...{ host: servername, user: 'default', password, connectTimeout: 10_000 },
    stream: () => connect({ host, port }),
    ssl: { ca: authority, verifyIdentity: true },
  }) satisfies ConnectionOptions

/** A connection that is logged in. Its end is no error of the test. */
export async function mysqlClient(options: ConnectionOptions): Promise<Connection> {
  const connection = createConnection(options)
  connection.on('error', () => {})
  try {
    await query(connection, 'SELECT 1')
    return connection
  } catch (error) {
    streamOf(connection).destroy()
    throw error
  }
}

/** The rows of a statement. */
export const query = <T = Record<string, unknown>>(connection: Connection, statement: string): Promise<T[]> =>
  new Promise((done, failed) =>
    connection.query(statement, (error, rows) => (error ? failed(error) : done(rows as unknown as T[]))),
  )

/** The code of its error, or `allowed`. */
export const statementCode = (statement: string, connection: Connection): Promise<string> =>
  query(connection, statement).then(
    () => 'allowed',
    error => error.code,
  )

export async function mysqlCustomer(remote: RemoteEngine, password: string): Promise<Customer> {
  const connection = await mysqlClient({ ...mysqlOptions(remote, password), database: 'default' })
  await query(connection, 'CREATE TABLE IF NOT EXISTS numbers (n INT PRIMARY KEY)')
  const stream = streamOf(connection)
  return {
    fingerprint: stream.getPeerCertificate().fingerprint256,
    write: async number => void (await query(connection, `INSERT INTO numbers VALUES (${number})`)),
    read: async () => (await query<{ n: number }>(connection, 'SELECT n FROM numbers ORDER BY n')).map(({ n }) => n),
    closed: new Promise<void>(done => stream.once('close', () => done())),
    end: () => stream.destroy(),
  }
}

const streamOf = (connection: Connection): TLSSocket =>
  (connection as unknown as { stream: Socket }).stream as TLSSocket
