import { readdir } from 'node:fs/promises'
import test, { type ExecutionContext } from 'ava'
import type { Connection, ConnectionOptions } from 'mysql2'
import { mysqlEngine } from '../../../../activities/databases/engines/mysql/mysql.ts'
import { accountStatements } from '../../../../activities/databases/engines/mysql/mysql-account.ts'
import { mysqlVerifier } from '../../../../activities/databases/engines/mysql/mysql-verifier.ts'
import { databaseEngineContract, type EngineUnderTest } from '../../../contracts/database-engine.ts'
import {
  mysqlClient,
  mysqlCustomer,
  mysqlOptions,
  query,
  statementCode,
} from '../../../kit/databases/mysql-customer.ts'

const mysql: EngineUnderTest = {
  adapter: mysqlEngine,
  engine: 'mysql',
  version: '9',
  memoryMb: 1024,
  connect: mysqlCustomer,
  connectPlainly: (remote, password) => mysqlClient({ ...mysqlOptions(remote, password), ssl: undefined }),
  connectAsPlatform: async (remote, password) => {
    for (const user of ['berth_host', 'berth_platform', 'root', 'mysql.session', 'mysql.sys'])
      for (const given of [password, ''])
        await mysqlClient({ ...mysqlOptions(remote, given), user }).then(
          () => Promise.reject(new Error(`${user} was admitted`)),
          () => undefined,
        )
    return mysqlClient({ ...mysqlOptions(remote, password), user: 'berth_host' })
  },
}

const database = databaseEngineContract(test.serial, 'mysql', () => mysql)

/** The customer's options now, and a connection with them that is closed after the test. */
async function customer(t: ExecutionContext, change: ConnectionOptions = {}) {
  const { remote, secrets } = await database()
  const options = { ...mysqlOptions(remote, secrets().password), ...change }
  const connection = await mysqlClient(options)
  t.teardown(() => connection.destroy())
  return { connection, options }
}

test.serial('mysql: a customer can do with its databases what their owner does, and hand that on', async t => {
  const { connection } = await customer(t, { database: 'default' })
  for (const statement of [
    'CREATE TABLE cities (id INT PRIMARY KEY AUTO_INCREMENT, name TEXT)',
    `INSERT INTO cities (name) VALUES ('Malmö 🌊')`,
    'CREATE VIEW names AS SELECT name FROM cities',
    'CREATE FUNCTION single() RETURNS INT RETURN 1',
    'CREATE PROCEDURE two() SELECT single() + single()',
    'CALL two()',
    `CREATE TRIGGER named BEFORE INSERT ON cities FOR EACH ROW SET NEW.name = UPPER(NEW.name)`,
    'CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR DO DELETE FROM cities',
    'CREATE TEMPORARY TABLE scratch AS SELECT * FROM cities',
    'LOCK TABLES cities WRITE',
    'UNLOCK TABLES',
    'CREATE DATABASE `a_b%`',
    'CREATE TABLE `a_b%`.t (n INT)',
    'DROP DATABASE `a_b%`',
    'SHOW PROCESSLIST',
    'SHOW ENGINE INNODB STATUS',
    'SELECT * FROM information_schema.innodb_tables LIMIT 1',
    'SELECT * FROM sys.version',
    `CREATE USER reader IDENTIFIED BY 'of-reader'`,
    'GRANT SELECT ON `default`.* TO reader',
    'DROP USER reader',
    'DROP TABLE cities',
  ])
    t.is(await statementCode(statement, connection), 'allowed', statement)
})

test.serial('mysql: customers that take all connections do not lock the platform out', async t => {
  const { locally, rotate } = await database()
  const { connection, options } = await customer(t)
  const held: Connection[] = []
  t.teardown(() => {
    for (const each of held) each.destroy()
  })
  for (const user of ['crowd', 'mob']) await query(connection, `CREATE USER ${user} IDENTIFIED BY 'of-many'`)
  const full = await t.throwsAsync(async () => {
    for (let number = 0; number < 150; number++) {
      const user = number % 2 ? 'crowd' : 'mob'
      held.push(await mysqlClient({ ...options, user, password: 'of-many' }))
    }
  })
  t.is((full as { code?: string }).code, 'ECONNREFUSED')
  // One of all that are let through is the customer's that created these users.
  t.is(held.length, 111)
  await locally(mysqlEngine.ping)
  await rotate()
  for (const each of held) await t.throwsAsync(query(each, 'SELECT 1'))
  const { connection: next } = await customer(t)
  for (const user of ['crowd', 'mob']) await query(next, `DROP USER ${user}`)
})

test.serial('mysql: the settings follow from the memory, and are in effect', async t => {
  const { connection } = await customer(t)
  const expected = {
    ...{ innodb_buffer_pool_size: '385875968', innodb_redo_log_capacity: '134217728', temptable_max_ram: '31457280' },
    ...{ max_connections: '224', max_user_connections: '214', performance_schema: 'OFF', tmpdir: '/data' },
    ...{ require_secure_transport: 'ON', skip_name_resolve: 'ON', local_infile: 'OFF', secure_file_priv: 'NULL' },
    ...{ have_symlink: 'DISABLED', partial_revokes: 'ON', general_log: 'OFF', log_bin: 'OFF', log_error: 'stderr' },
    ...{ socket: '/run/berth/mysqld.sock', pid_file: '/run/berth/mysqld.pid', host_cache_size: '0' },
    ...{ innodb_flush_log_at_trx_commit: '1', innodb_doublewrite: 'ON', character_set_server: 'utf8mb4' },
    ...{ time_zone: 'SYSTEM', system_time_zone: 'UTC', lower_case_table_names: '0', event_scheduler: 'ON' },
  }
  const rows = await query<{ Variable_name: string; Value: string }>(
    connection,
    `SHOW GLOBAL VARIABLES WHERE Variable_name IN (${Object.keys(expected).map(name => `'${name}'`)})`,
  )
  t.deepEqual(Object.fromEntries(rows.map(({ Variable_name: name, Value }) => [name, Value])), expected)
  t.deepEqual(
    await query(
      connection,
      `SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'mysqlx' AND plugin_status = 'ACTIVE'`,
    ),
    [],
  )
  const { traits, secrets } = await database()
  const text = mysqlEngine.settings({ ...traits, memoryMb: 32_768 }, secrets())['my.cnf']!
  for (const line of ['innodb_buffer_pool_size = 12112M', 'max_connections = 820', 'performance_schema = ON'])
    t.true(text.includes(`${line}\n`), line)
})

test.serial('mysql: an initialisation that was interrupted is made anew', async t => {
  const { folders, initialise, stop, start, runJob, remote, secrets } = await database()
  await stop()
  await runJob(['sh', '-c', 'mkdir -p /data/mysql.new && mv /data/mysql /data/kept && touch /data/mysql.new/ibdata1'])
  await initialise()
  const { adapter } = mysql
  await start()
  t.is(await adapter.login(remote, secrets().password), 'refused')
  await stop()
  await runJob(['sh', '-c', 'rm -r /data/mysql && mv /data/kept /data/mysql'])
  await start()
  t.is(await adapter.login(remote, secrets().password), 'accepted')
  t.deepEqual((await readdir(folders.data)).sort(), ['mysql'])
})

test('MySQL gets only the verifier of a password, which is that of crypt(5) with 10,000 rounds', t => {
  // openssl passwd -5 -salt 'rounds=10000$0123456789abcdef' pencil
  const digest = '/MPxPFSEOOkaKhbj7A/cdcDfGq2zzwuN0vkVtQHmgv5'
  t.is(mysqlVerifier('pencil', '0123456789abcdef'), `$A$00A$0123456789abcdef${digest}`)
  t.not(mysqlVerifier('pencil'), mysqlVerifier('pencil'))
  for (const statement of accountStatements('pencil')) t.false(statement.includes('pencil'), statement)
})
