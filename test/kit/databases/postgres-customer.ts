import type { TLSSocket } from 'node:tls'
import { Client, type ClientConfig } from 'pg'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { Customer } from '../../contracts/database-engine.ts'

/** The options with which a customer connects: a name for the certificate, and an address in addition. */
export function postgresOptions({ host, port, authority, servername }: RemoteEngine, password: string): ClientConfig {
  return {
    ...{ host, port, password, user: 'default', database: 'default', connectionTimeoutMillis: 10_000 },
    ssl: { ca: authority, servername },
  }
}

/** A client that is connected. An end of its connection is no error of the test. */
export async function postgresClient(config: ClientConfig): Promise<Client> {
  const client = new Client(config)
  client.on('error', () => {})
  await client.connect()
  return client
}

export async function postgresCustomer(remote: RemoteEngine, password: string): Promise<Customer> {
  const client = await postgresClient(postgresOptions(remote, password))
  await client.query('create table if not exists numbers (n int primary key)')
  const { stream } = client.connection as unknown as { stream: TLSSocket }
  return {
    fingerprint: stream.getPeerCertificate().fingerprint256,
    write: async number => void (await client.query('insert into numbers values ($1)', [number])),
    read: async () => (await client.query('select n from numbers order by n')).rows.map(({ n }) => n),
    closed: new Promise(done => client.once('end', done)),
    end: () => void client.end(),
  }
}
