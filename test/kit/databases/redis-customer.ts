import type { TLSSocket } from 'node:tls'
import { Redis, type RedisOptions } from 'ioredis'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { Customer } from '../../contracts/database-engine.ts'

/** The options with which a customer connects: a name for the certificate, and an address in addition. */
export const redisOptions = ({ host, port, authority, servername }: RemoteEngine, password: string): RedisOptions => ({
  ...{ host, port, username: 'default', password },
  tls: { ca: authority, servername },
})

/** A client that is logged in, and is not connected again. An end of its connection is no error of the test. */
export async function redisClient(options: RedisOptions): Promise<Redis> {
  const client = new Redis({
    ...options,
    lazyConnect: true,
    retryStrategy: () => null,
    connectTimeout: 10_000,
    disconnectTimeout: 100,
  })
  client.on('error', () => {})
  await client.connect()
  try {
    // Without a user, an engine may accept the connection and no command.
    await client.ping()
    return client
  } catch (error) {
    client.disconnect()
    throw error
  }
}

export async function redisCustomer(remote: RemoteEngine, password: string): Promise<Customer> {
  const client = await redisClient(redisOptions(remote, password))
  const { stream } = client as unknown as { stream: TLSSocket }
  return {
    fingerprint: stream.getPeerCertificate().fingerprint256,
    write: async number => void (await client.sadd('numbers', number)),
    read: async () => (await client.smembers('numbers')).map(Number).sort((one, other) => one - other),
    closed: new Promise<void>(done => client.once('end', done)),
    end: () => client.disconnect(),
  }
}
