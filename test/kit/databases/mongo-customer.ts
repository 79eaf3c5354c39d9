import { connect, type TLSSocket } from 'node:tls'
import { MongoClient, type MongoClientOptions } from 'mongodb'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { Customer } from '../../contracts/database-engine.ts'

/** The options with which a customer connects: a name for the certificate, and an address in addition. */
export const mongoOptions = ({ authority, servername }: RemoteEngine, password: string): MongoClientOptions => ({
  ...{ tls: true, ca: authority, servername, directConnection: true, serverSelectionTimeoutMS: 5000 },
  ...{ auth: { username: 'default', password }, authSource: 'admin' },
  ...{ maxPoolSize: 1, retryReads: false, retryWrites: false },
})

/** A client that is logged in. */
export async function mongoClient({ host, port }: RemoteEngine, options: MongoClientOptions): Promise<MongoClient> {
  const client = new MongoClient(`mongodb://${host}:${port}/`, options)
  try {
    await client.db('admin').command({ ping: 1 })
    return client
  } catch (error) {
    await client.close()
    throw error
  }
}

export async function mongoCustomer(remote: RemoteEngine, password: string): Promise<Customer> {
  const client = await mongoClient(remote, mongoOptions(remote, password))
  // The driver would connect again by itself, and go on to look for its server.
  let ended = false
  const closed = new Promise<void>(done =>
    client.once('connectionClosed', () => {
      ended = true
      void client.close()
      done()
    }),
  )
  const numbers = () => {
    if (ended) throw new Error('The connection has ended.')
    return client.db('default').collection<{ _id: number }>('numbers')
  }
  const fingerprint = await fingerprintOf(remote)
  return {
    fingerprint,
    write: async number => void (await numbers().insertOne({ _id: number })),
    read: async () => (await numbers().find().sort({ _id: 1 }).toArray()).map(({ _id }) => _id),
    closed,
    end: () => void client.close(),
  }
}

/** Of the certificate that is served now; the driver does not show that of its connections. */
const fingerprintOf = ({ host, port, authority, servername }: RemoteEngine): Promise<string> =>
  new Promise((done, failed) => {
    const socket: TLSSocket = connect({ host, port, ca: authority, servername }, () => {
      done(socket.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
    socket.once('error', failed)
  })
