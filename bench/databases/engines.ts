import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { places, type RemoteEngine } from '../../activities/databases/port.ts'
import { customerUser } from '../../policy/databases/connection-url.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import { mongoClient, mongoOptions } from '../../test/kit/databases/mongo-customer.ts'
import { mysqlClient, mysqlOptions, query } from '../../test/kit/databases/mysql-customer.ts'
import { postgresClient, postgresOptions } from '../../test/kit/databases/postgres-customer.ts'
import { redisClient, redisOptions } from '../../test/kit/databases/redis-customer.ts'

/** A client that is logged in over TLS. */
interface BenchClient {
  /** The smallest query that reads something. */
  query(): Promise<unknown>
  /** Writes this many MB that no engine can compress by much. */
  seed(megabytes: number): Promise<void>
  /** Reads everything into a file, as a tool that dumps does; only where there is none. */
  readAll?(file: string): Promise<void>
  end(): void
}

export interface BenchEngine {
  version: string
  memoryMb: number
  /** The image is the stand-in for MongoDB. */
  standIn: boolean
  connect(remote: RemoteEngine, password: string): Promise<BenchClient>
  /**
   * The engine's own tool in a container of its image, which writes /dump/bare, compressed as little as snapshots are; null where there is none,
   * and a client reads everything.
   */
  bareDump(engine: { port: number; platformPassword: string }): string[] | null
  /** Folder in the data folder that is copied for the floor; null where there is nothing to copy. */
  prepared: string | null
}

const rowBytes = 1024
const rowsOf = (megabytes: number): number => megabytes * 1024

export const benchEngines: Record<EngineName, BenchEngine> = {
  postgres: {
    ...{ version: '17', memoryMb: 1024, standIn: false, prepared: 'pg' },
    async connect(remote, password) {
      const client = await postgresClient(postgresOptions(remote, password))
      return {
        query: () => client.query('select 1'),
        seed: async megabytes => {
          await client.query('create table if not exists seeds (id bigserial primary key, text text not null)')
          // 32 digits of MD5 for each 32 bytes.
          const text = `(select string_agg(md5(random()::text || n), '') from generate_series(1, ${rowBytes / 32}) n where i > 0)`
          await client.query(`insert into seeds (text) select ${text} from generate_series(1, ${rowsOf(megabytes)}) i`)
        },
        end: () => void client.end(),
      }
    },
    bareDump: ({ port }) => [
      '/usr/lib/postgresql/17/bin/pg_dump',
      ...['-Fc', '-Z', 'zstd:1', '--no-password', '--file=/dump/bare', `--host=${places.run}`, `--port=${port}`],
      ...['--username=berth_platform', customerUser],
    ],
  },
  mysql: {
    ...{ version: '9', memoryMb: 1024, standIn: false, prepared: 'mysql' },
    async connect(remote, password) {
      const connection = await mysqlClient({ ...mysqlOptions(remote, password), database: customerUser })
      return {
        query: () => query(connection, 'SELECT 1'),
        seed: async megabytes => {
          await query(connection, 'CREATE TABLE IF NOT EXISTS seeds (id BIGINT AUTO_INCREMENT PRIMARY KEY, text TEXT)')
          const text = `CONCAT(${Array.from({ length: rowBytes / 64 }, () => 'SHA2(RAND(), 256)').join(', ')})`
          for (let left = rowsOf(megabytes); left > 0; left -= 1000)
            await query(
              connection,
              `INSERT INTO seeds (text) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${Math.min(1000, left)})
               SELECT ${text} FROM n`,
            )
        },
        end: () => connection.destroy(),
      }
    },
    bareDump: () => [
      // Not by a pipe of the shell, whose status is that of `gzip`.
      ...[
        'sh',
        '-ec',
        'mkfifo /tmp/rows; gzip -1 < /tmp/rows > /dump/bare & mysqldump "$@" > /tmp/rows; wait $!',
        'sh',
      ],
      `--socket=${places.run}/mysqld.sock`,
      ...[
        '--user=berth_platform',
        '--single-transaction',
        '--set-gtid-purged=OFF',
        '--routines',
        '--events',
        '--databases',
      ],
      customerUser,
    ],
  },
  redis: {
    ...{ version: '8', memoryMb: 512, standIn: false, prepared: null },
    async connect(remote, password) {
      const client = await redisClient(redisOptions(remote, password))
      return {
        query: () => client.get('one'),
        seed: async megabytes => {
          for (let left = rowsOf(megabytes); left > 0; left -= 512) {
            const pipeline = client.pipeline()
            for (let row = 0; row < Math.min(512, left); row++) pipeline.set(`seed:${left - row}`, randomText(rowBytes))
            await pipeline.exec()
          }
        },
        end: () => client.disconnect(),
      }
    },
    // The tool is given the password by its environment: the database is thrown away.
    bareDump: ({ platformPassword }) => [
      ...['env', `REDISCLI_AUTH=${platformPassword}`, 'redis-cli', '-s', `${places.run}/redis.sock`],
      ...['--user', 'berth_platform', '--rdb', '/dump/bare'],
    ],
  },
  mongo: {
    ...{ version: '8', memoryMb: 1024, standIn: true, prepared: null },
    async connect(remote, password) {
      const client = await mongoClient(remote, mongoOptions(remote, password))
      const seeds = client.db(customerUser).collection<{ _id: number; text: string }>('seeds')
      return {
        query: () => client.db(customerUser).command({ ping: 1 }),
        seed: async megabytes => {
          for (let left = rowsOf(megabytes); left > 0; left -= 500)
            await seeds.insertMany(
              Array.from({ length: Math.min(500, left) }, (_, row) => ({
                _id: left - row,
                text: randomText(rowBytes),
              })),
            )
        },
        readAll: file =>
          pipeline(Readable.from(seeds.find({}, { raw: true })), createGzip({ level: 1 }), createWriteStream(file)),
        end: () => void client.close(),
      }
    },
    bareDump: () => null,
  },
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
const randomText = (length: number): string => {
  let text = ''
  while (text.length < length) text += alphabet[Math.floor(Math.random() * alphabet.length)]
  return text
}
