import { randomBytes } from 'node:crypto'
import type { MongoClient } from 'mongodb'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { mongoClient, mongoOptions } from './mongo-customer.ts'
import { mysqlClient, mysqlOptions, query } from './mysql-customer.ts'
import { postgresClient, postgresOptions } from './postgres-customer.ts'
import { redisClient, redisOptions } from './redis-customer.ts'

/** A customer's connection that writes rows which no compression makes smaller. */
export interface DiskFiller {
  /** Resolves when the engine has acknowledged a row of so many bytes under this number. */
  write(number: number, bytes: number): Promise<void>
  /** The numbers of all rows. */
  numbers(): Promise<number[]>
  /** Removes all rows, as a customer may while additions are refused; null = such an engine has no way. */
  clear: (() => Promise<void>) | null
  end(): void
}

const payload = (bytes: number): string => randomBytes(Math.ceil((bytes * 3) / 4)).toString('base64')

/** How a customer of each engine fills its disk. */
export const diskFillers: Record<EngineName, (remote: RemoteEngine, password: string) => Promise<DiskFiller>> = {
  async postgres(remote, password) {
    const client = await postgresClient(postgresOptions(remote, password))
    return {
      async write(number, bytes) {
        await client.query('create table if not exists filled (n int primary key, v text)')
        await client.query('insert into filled values ($1, $2)', [number, payload(bytes)])
      },
      numbers: async () => (await client.query('select n from filled')).rows.map(({ n }) => n),
      async clear() {
        await client.query('set default_transaction_read_only = off')
        await client.query('truncate filled')
        await client.query('reset default_transaction_read_only')
      },
      end: () => void client.end(),
    }
  },

  async mysql(remote, password) {
    const connection = await mysqlClient({ ...mysqlOptions(remote, password), database: 'default' })
    return {
      async write(number, bytes) {
        await query(connection, 'CREATE TABLE IF NOT EXISTS filled (n INT PRIMARY KEY, v LONGTEXT)')
        await query(connection, `INSERT INTO filled VALUES (${number}, '${payload(bytes)}')`)
      },
      numbers: async () => (await query<{ n: number }>(connection, 'SELECT n FROM filled')).map(({ n }) => n),
      clear: null,
      end: () => connection.destroy(),
    }
  },

  async redis(remote, password) {
    const client = await redisClient(redisOptions(remote, password))
    return {
      async write(number, bytes) {
        await client.set(`filled:${number}`, payload(bytes))
        // What expires is deleted like anything else, while the disk is full too.
        await client.set(`expires:${number}`, 'x', 'EX', 20)
      },
      numbers: async () => (await client.keys('filled:*')).map(key => Number(key.slice(7))),
      async clear() {
        // One by one: each of them is one more line of its log.
        for (const key of await client.keys('filled:*')) await client.del(key)
      },
      end: () => client.disconnect(),
    }
  },

  async mongo(remote, password) {
    const client: MongoClient = await mongoClient(remote, mongoOptions(remote, password))
    const rows = client.db('default').collection<{ _id: number; v: string }>('filled')
    return {
      write: async (number, bytes) => void (await rows.insertOne({ _id: number, v: payload(bytes) })),
      numbers: async () => (await rows.find({}, { projection: { _id: 1 } }).toArray()).map(({ _id }) => _id),
      clear: async () => void (await rows.drop()),
      end: () => void client.close(),
    }
  },
}
