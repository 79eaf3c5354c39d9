import test from 'ava'
import { contentsOf } from '../../activities/databases/engines/contents.ts'
import { mongoEngine } from '../../activities/databases/engines/mongo/mongo.ts'
import { mysqlEngine } from '../../activities/databases/engines/mysql/mysql.ts'
import { postgresEngine } from '../../activities/databases/engines/postgres/postgres.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { type CopiedEngine, databaseCopies } from '../kit/databases/copies.ts'
import type { EngineContainer } from '../kit/databases/engine-container.ts'
import { mongoClient, mongoOptions } from '../kit/databases/mongo-customer.ts'
import { mysqlClient, mysqlOptions, query } from '../kit/databases/mysql-customer.ts'
import { asCustomer } from '../kit/databases/postgres-contents.ts'

const tables = 5000
/** Many tables; a dump and its load together may take the time that the steps of a snapshot have. */
const timeoutMs = 3_600_000

interface ManyTables extends CopiedEngine {
  /** Makes them as the customer, with a row in each. */
  make(database: EngineContainer): Promise<void>
  /** How many of them have their row. */
  count(database: EngineContainer): Promise<number>
}

const postgres: ManyTables = {
  ...{ adapter: postgresEngine, engine: 'postgres', version: '17', memoryMb: 1024, contents: contentsOf('postgres') },
  make: database =>
    asCustomer(database, async client => {
      for (let first = 0; first < tables; first += 500)
        await client.query(`do $$begin for n in ${first}..${first + 499} loop
          execute format('create table %I (id serial primary key, t text unique)', 'table ' || n);
          execute format('insert into %I (t) values (%L)', 'table ' || n, n); end loop; end$$`)
    }),
  count: database =>
    asCustomer(database, async client => {
      const { rows } = await client.query(`select count(*)::int as n from pg_tables where tablename like 'table %'
        and (xpath('//t/text()', query_to_xml(format('select t from %I', tablename), true, false, '')))[1]::text = substr(tablename, 7)`)
      return rows[0].n
    }),
}

const mysql: ManyTables = {
  ...{ adapter: mysqlEngine, engine: 'mysql', version: '9', memoryMb: 1024, contents: contentsOf('mysql') },
  async make(database) {
    const connection = await mysqlClient({
      ...mysqlOptions(database.remote, database.secrets().password),
      database: 'default',
    })
    for (let n = 0; n < tables; n++) {
      await query(connection, `CREATE TABLE \`table ${n}\` (id INT PRIMARY KEY AUTO_INCREMENT, t VARCHAR(20) UNIQUE)`)
      await query(connection, `INSERT INTO \`table ${n}\` (t) VALUES ('${n}')`)
    }
    connection.destroy()
  },
  async count(database) {
    const connection = await mysqlClient({
      ...mysqlOptions(database.remote, database.secrets().password),
      database: 'default',
    })
    let found = 0
    for (let n = 0; n < tables; n++)
      found += (await query(connection, `SELECT t FROM \`table ${n}\` WHERE t = '${n}'`)).length
    connection.destroy()
    return found
  },
}

const mongo: ManyTables = {
  ...{ adapter: mongoEngine, engine: 'mongo', version: '8', memoryMb: 1024, contents: contentsOf('mongo') },
  ...{ image: mongoStandIn.image('8'), standIn: true },
  async make(database) {
    const client = await mongoClient(database.remote, mongoOptions(database.remote, database.secrets().password))
    for (let n = 0; n < tables; n++) await client.db('default').collection(`table ${n}`).insertOne({ n })
    await client.close()
  },
  async count(database) {
    const client = await mongoClient(database.remote, mongoOptions(database.remote, database.secrets().password))
    let found = 0
    for (let n = 0; n < tables; n++) found += await client.db('default').collection(`table ${n}`).countDocuments({ n })
    await client.close()
    return found
  },
}

for (const [name, subject] of Object.entries({ postgres, mysql, 'mongo (stand-in)': mongo })) {
  const { serving, copying } = databaseCopies(test.serial, () => subject)
  test.serial(`${name}: ${tables} tables come back`, async t => {
    t.timeout(timeoutMs)
    const database = await serving()
    await subject.make(database)
    const began = Date.now()
    await copying(database, async (copy, digests) => {
      t.log(`dump, load and digests took ${Math.round((Date.now() - began) / 1000)} s`)
      if (digests.dump !== null) t.is(digests.copy, digests.dump)
      t.is(await subject.count(copy), tables)
    })
  })
}
