import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { type Connection, type ConnectionOptions, createConnection } from 'mysql2'
import type { LocalEngine } from '../../port.ts'
import { type EngineCall, engineCall, openSeconds } from '../engine-call.ts'
import { platformUsers } from './mysql-settings.ts'

/** One connection to an address or a socket. Rejects with EngineUnavailable when the engine does not answer, or `work` rejects. */
export function mysqlConnection<T>(
  to: { path: string } | { host: string; port: number },
  options: ConnectionOptions,
  call: Omit<EngineCall, 'engine'>,
  work: (connection: Connection, stream: Socket) => Promise<T>,
): Promise<T> {
  // Our socket, so that it is closed immediately: the driver only sends its farewell.
  const stream = connect(to as TcpNetConnectOpts)
  const talk = () =>
    new Promise<T>((resolve, reject) => {
      const connection = createConnection({ ...options, stream, connectTimeout: openSeconds * 1000 })
      connection.on('error', reject)
      work(connection, stream).then(resolve, reject)
    })
  // With an error: the driver does not tell statements of a connection that ends without one.
  return engineCall({ engine: 'mysql', ...call }, talk, () => stream.destroy(new Error('the connection was closed')))
}

/** A connection of the platform through the socket, by the identity of this process. */
export function platformConnection<T>(
  { socket, secrets, signal }: LocalEngine,
  { seconds, ...options }: ConnectionOptions & { seconds?: number },
  work: (connection: Connection, stream: Socket) => Promise<T>,
): Promise<T> {
  const user = process.getuid?.() === 0 ? platformUsers.root : platformUsers.engine
  const call = { secrets: Object.values(secrets), seconds, signal }
  return mysqlConnection({ path: socket }, { user, ...options }, call, work)
}
