import { Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import type { Client } from 'pg'
import { postgresEngine } from '../../../../activities/databases/engines/postgres/postgres.ts'
import { scramVerifier } from '../../../../activities/databases/engines/postgres/postgres-verifier.ts'
import { databaseEngineContract, type EngineUnderTest, within } from '../../../contracts/database-engine.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { postgresClient, postgresCustomer, postgresOptions } from '../../../kit/databases/postgres-customer.ts'

const postgres: EngineUnderTest = {
  adapter: postgresEngine,
  engine: 'postgres',
  version: '17',
  memoryMb: 512,
  connect: postgresCustomer,
  connectPlainly: (remote, password) => postgresClient({ ...postgresOptions(remote, password), ssl: false }),
  connectAsPlatform: (remote, password) =>
    postgresClient({ ...postgresOptions(remote, password), user: 'berth_platform', database: 'postgres' }),
}

const database = databaseEngineContract(test.serial, 'postgres', () => postgres)

/** The customer's options now, and a client with them that is closed after the test. */
async function customer(t: ExecutionContext, change: object = {}) {
  const { remote, secrets } = await database()
  const options = { ...postgresOptions(remote, secrets().password), ...change }
  const client = await postgresClient(options)
  t.teardown(() => client.end())
  return { client, options }
}

const codeOf = (statement: string, client: Client): Promise<string> =>
  client.query(statement).then(
    () => 'allowed',
    error => error.code,
  )

/** Statements by which a customer would leave the database, or gain rights in it. */
const escapes = [
  `copy (select 1) to program 'id'`,
  `copy numbers from program 'echo 1'`,
  `copy numbers from '/etc/passwd'`,
  `copy (select 1) to '/data/out'`,
  `select pg_read_file('/etc/berth/server.key')`,
  `select pg_read_binary_file('postgresql.auto.conf')`,
  `select pg_ls_dir('/etc/berth')`,
  `select pg_stat_file('/etc/passwd')`,
  `select pg_ls_waldir()`,
  `select lo_import('/etc/passwd')`,
  `select lo_export(1, '/data/out')`,
  `create function run(text) returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'`,
  `create function run() returns int language internal as 'pg_reload_conf'`,
  `create trusted language evil handler plpgsql_call_handler`,
  `create extension file_fdw`,
  `create extension dblink`,
  `create extension postgres_fdw`,
  `create extension pageinspect`,
  `load '/data/evil.so'`,
  `set session_preload_libraries = 'evil'`,
  `set log_statement = 'all'`,
  `set role berth_platform`,
  `set session authorization berth_platform`,
  `alter role berth_platform password 'x'`,
  `drop role berth_platform`,
  `alter role "default" superuser`,
  `alter role "default" replication`,
  `alter role "default" bypassrls`,
  `alter role "default" connection limit 1000`,
  `create role evil superuser`,
  `create role evil replication`,
  `create role evil bypassrls`,
  `create role evil in role berth_platform`,
  `grant berth_platform to "default"`,
  `grant pg_execute_server_program to "default"`,
  `grant pg_read_server_files to "default"`,
  `grant pg_write_server_files to "default"`,
  `grant pg_signal_backend to "default"`,
  `grant pg_create_subscription to "default"`,
  `create tablespace evil location '/data'`,
  `create event trigger evil on ddl_command_start execute function now()`,
  `create subscription evil connection 'host=127.0.0.1' publication p`,
  `select pg_create_physical_replication_slot('evil')`,
  `select pg_create_logical_replication_slot('evil', 'pgoutput')`,
  `select pg_reload_conf()`,
  `select pg_switch_wal()`,
  `checkpoint`,
  `select rolpassword from pg_authid`,
  `update pg_authid set rolsuper = true`,
  `select * from pg_hba_file_rules`,
  `drop database postgres`,
  `alter database postgres set search_path = evil`,
  `alter database template1 rename to template2`,
  `alter role all set search_path = evil`,
]

const insufficientPrivilege = '42501'

test.serial('postgres: a customer can leave neither the database nor its own rights', async t => {
  const { client } = await customer(t)
  await client.query('create table if not exists numbers (n int primary key)')
  for (const statement of escapes) t.is(await codeOf(statement, client), insufficientPrivilege, statement)
  for (const language of ['plpython3u', 'plperlu', 'pltclu'])
    t.not(await codeOf(`create extension ${language}`, client), 'allowed')
  t.not(await codeOf(`alter system set shared_buffers = '1MB'`, client), 'allowed')
  const { rows } = await client.query('select rolsuper, rolreplication from pg_roles where rolname = current_user')
  t.deepEqual(rows, [{ rolsuper: false, rolreplication: false }])
})

test.serial('postgres: roles that a customer creates log in over TLS, and can do no more than it', async t => {
  const { client, options } = await customer(t)
  await client.query(`create role maker login createrole createdb password 'of-maker'`)
  const maker = { ...options, user: 'maker', password: 'of-maker' }
  const { client: made } = await customer(t, maker)
  for (const statement of escapes.filter(text => !text.includes('"default"')))
    t.not(await codeOf(statement, made), 'allowed', statement)
  t.is(await codeOf(`alter role "default" password 'x'`, made), insufficientPrivilege)
  await t.throwsAsync(postgresClient({ ...maker, ssl: false }), { code: '28000' })
  await t.throwsAsync(postgresClient({ ...maker, replication: 'database' } as object), { code: insufficientPrivilege })

  const { rotate, remote, secrets } = await database()
  const closed = new Promise(done => made.once('end', done))
  await rotate()
  await within(closed, 'a role of the customer is connected still')
  await (await postgresClient(maker)).end()
  const after = await postgresClient(postgresOptions(remote, secrets().password))
  await after.query('drop role maker')
  await after.end()
})

test.serial(
  'postgres: through the socket, jobs of the platform are let in without a password, and nobody else is',
  async t => {
    const { runJob, traits, locally, secrets } = await database()
    const query = [
      'psql',
      '-h',
      '/run/berth',
      '-p',
      String(traits.port),
      '-d',
      'postgres',
      '-c',
      'select 1',
      '-w',
      '-U',
    ]
    await runJob([...query, 'berth_platform'])
    await t.throwsAsync(runJob([...query, 'default']), { message: /rejects connection/ })
    const { password } = secrets()
    const stream = (socket: string) => () => {
      const connection = new Socket()
      return Object.assign(connection, {
        connect: () => Socket.prototype.connect.call(connection, { path: socket } as never),
      })
    }
    await locally(({ socket }) =>
      t.throwsAsync(postgresClient({ user: 'default', database: 'default', password, stream: stream(socket) }), {
        code: '28000',
      }),
    )
  },
)

test.serial('postgres: a customer owns its database and can use what is trusted', async t => {
  const { client } = await customer(t)
  for (const statement of [
    'create table cities (name text)',
    'create schema own',
    'create extension pg_trgm',
    'create extension pgcrypto',
    'create database second',
    'drop database second',
    `create function one() returns int language plpgsql as 'begin return 1; end'`,
    `select 'ä' ~ '[[:alpha:]]'`,
    'drop table cities',
  ])
    t.is(await codeOf(statement, client), 'allowed', statement)
})

test.serial('postgres: the settings follow from the memory, and are in effect', async t => {
  const { client } = await customer(t)
  const expected = {
    ...{ shared_buffers: '128MB', effective_cache_size: '307MB', work_mem: '4MB', maintenance_work_mem: '30MB' },
    ...{ autovacuum_work_mem: '15MB', max_connections: '122', superuser_reserved_connections: '10', jit: 'off' },
    ...{ max_locks_per_transaction: '164' },
    ...{ max_wal_size: '512MB', TimeZone: 'UTC', log_destination: 'stderr', logging_collector: 'off', fsync: 'on' },
    ...{ password_encryption: 'scram-sha-256', allow_alter_system: 'off' },
    ...{ data_checksums: 'on', full_page_writes: 'on', synchronous_commit: 'on' },
  }
  const { rows } = await client.query('select name, current_setting(name) from pg_settings where name = any($1)', [
    Object.keys(expected),
  ])
  t.deepEqual(Object.fromEntries(rows.map(row => [row.name, row.current_setting])), expected)
  const role = await client.query('select rolconnlimit, rolcreaterole, rolcreatedb from pg_roles where rolname = $1', [
    'default',
  ])
  t.deepEqual(role.rows, [{ rolconnlimit: -1, rolcreaterole: true, rolcreatedb: true }])
  const { traits, secrets } = await database()
  const settings = postgresEngine.settings({ ...traits, memoryMb: 32_768 }, secrets())['postgresql.conf']!
  for (const line of [
    ...["shared_buffers = '8192MB'", "max_connections = '820'", "max_locks_per_transaction = '64'"],
    "max_wal_size = '4096MB'",
  ])
    t.true(settings.includes(line), line)
})

test.serial('postgres: a customer that takes all connections does not lock the platform out', async t => {
  const { locally, rotate } = await database()
  const { client, options } = await customer(t)
  await client.query(`create role crowd login password 'of-crowd'`)
  const crowd = { ...options, user: 'crowd', password: 'of-crowd', database: 'default' }
  const held: Client[] = []
  const full = await t.throwsAsync(async () => {
    for (let number = 0; number < 100; number++) held.push(await postgresClient(crowd))
  })
  t.is((full as { code?: string }).code, 'ECONNREFUSED')
  // One of all that are let through is the customer's that created this role.
  t.is(held.length, 60)
  await locally(postgresEngine.ping)
  await rotate()
  for (const each of held) await t.throwsAsync(each.query('select 1'))
})

test.serial('postgres: neither a lock on the role nor a long statement holds up a new password', async t => {
  const { rotate, remote, secrets } = await database()
  const { client: locking } = await customer(t)
  await locking.query('begin')
  await locking.query(`alter role "default" password 'of-customer'`)
  const { client: sleeping } = await customer(t)
  await sleeping.query('set statement_timeout = 0')
  const slept = t.throwsAsync(sleeping.query('select pg_sleep(3600)'))
  await rotate()
  await within(slept, 'the statement runs still')
  await t.throwsAsync(locking.query('commit'))
  t.is(await postgresEngine.login(remote, secrets().password), 'accepted')
  t.is(await postgresEngine.login(remote, 'of-customer'), 'refused')
})

test.serial('postgres: a login that began with the former password does not outlive it', async t => {
  const { rotate, remote, secrets } = await database()
  const former = secrets().password
  let ask = () => {}
  let answer = (_: string) => {}
  const asked = new Promise<void>(done => {
    ask = done
  })
  const given = new Promise<string>(done => {
    answer = done
  })
  const password = () => {
    ask()
    return given
  }
  const late = t.throwsAsync(postgresClient({ ...postgresOptions(remote, former), password }))
  await within(asked, 'no password was asked for')
  await rotate()
  answer(former)
  await within(late, 'the login waits still')
})

test.serial('postgres: a database that its customer dropped is there again with the next password', async t => {
  const { rotate, remote, secrets } = await database()
  const { client } = await customer(t, { database: 'postgres' })
  t.is(await codeOf('create table evil (n int)', client), insufficientPrivilege)
  await client.query('drop database "default" with (force)')
  t.is(await postgresEngine.login(remote, secrets().password), 'accepted', 'the password is right')
  await t.throwsAsync(postgresClient(postgresOptions(remote, secrets().password)), { code: '3D000' })
  await rotate()
  const { client: next } = await customer(t)
  t.is(await codeOf('create table cities (name text)', next), 'allowed')
})

test.serial('postgres: a statement that needs more memory than there is ends sessions, and not the engine', async t => {
  const { locally, state } = await database()
  const { client } = await customer(t)
  const startedAt = (await state())?.startedAt
  await t.throwsAsync(client.query(`select array_agg(repeat('x', 1000000)) from generate_series(1, 1000)`))
  await comesTrue(() =>
    locally(postgresEngine.ping).then(
      () => true,
      () => false,
    ),
  )
  t.like(await state(), { running: true, startedAt })
})

test('Postgres stores the verifier of RFC 7677 for a password', async t => {
  t.is(
    await scramVerifier('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')),
    'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
  )
  t.not(await scramVerifier('pencil'), await scramVerifier('pencil'))
})
