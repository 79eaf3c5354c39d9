import { createHash } from 'node:crypto'
import test from 'ava'
import { DumpCorrupt } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { postgresEngine } from '../../../../activities/databases/engines/postgres/postgres.ts'
import { type DigestsOfCopy, databaseCopies, filesOf } from '../../../kit/databases/copies.ts'
import type { EngineContainer } from '../../../kit/databases/engine-container.ts'
import { asCustomer, hostileDefinitions, runAsCustomer } from '../../../kit/databases/postgres-contents.ts'

const contents = contentsOf('postgres')

const { serving, copying, outcomesOf } = databaseCopies(test.serial, () => ({
  adapter: postgresEngine,
  contents,
  engine: 'postgres',
  version: '17',
  memoryMb: 512,
}))

test.serial('postgres: a dump is one moment, also of sequences, while customers write', async t => {
  const database = await serving()
  await runAsCustomer(database, [
    'create table giving (n int)',
    'create table taking (n int)',
    'create table log (id serial primary key, at timestamptz default clock_timestamp())',
    'insert into giving values (1000000)',
    'insert into taking values (0)',
    `insert into log (at) select now() from generate_series(1, 20000)`,
  ])
  let writing = true
  let transfers = 0
  const writer = asCustomer(database, async client => {
    for (; writing; transfers++)
      await client.query(
        'begin; update giving set n = n - 1; select pg_sleep(0.001); update taking set n = n + 1; insert into log default values; commit',
      )
  })
  const before = transfers
  const dumpEnded = async () => {
    t.true(transfers > before)
    writing = false
    await writer
  }
  const check = async (copy: EngineContainer, digests: DigestsOfCopy) => {
    t.is(digests.dump, digests.copy)
    await asCustomer(copy, async client => {
      const { rows } = await client.query(`select (select n from giving) + (select n from taking) as sum,
        (select n from taking) as moved, (select count(*)::int - 20000 from log) as logged`)
      t.is(rows[0].sum, 1_000_000)
      t.is(rows[0].moved, rows[0].logged)
      t.true(rows[0].moved < transfers)
      await t.notThrowsAsync(client.query('insert into log default values'), 'the sequence is beyond all rows')
    })
  }
  await copying(database, check, dumpEnded).finally(() => {
    writing = false
  })
})

test.serial(
  'postgres: functions of the customer have no rights of the platform in a dump, a load or a digest',
  async t => {
    const database = await serving()
    await runAsCustomer(database, hostileDefinitions)
    const isSuper = (of: EngineContainer) =>
      asCustomer(
        of,
        async client => (await client.query('select rolsuper as is from pg_roles where rolname = current_user')).rows,
      )
    await copying(database, async (copy, digests) => {
      t.is(digests.dump, digests.copy)
      t.deepEqual(await isSuper(copy), [{ is: false }])
      t.deepEqual((await asCustomer(copy, client => client.query('select count(*)::int as n from cut'))).rows, [
        { n: 2 },
      ])
    })
    t.deepEqual(await isSuper(database), [{ is: false }])
  },
)

test.serial('postgres: a database that its customer dropped is not in the copy either', async t => {
  const database = await serving()
  await asCustomer(database, client => client.query('drop database "default" with (force)'), { database: 'postgres' })
  await copying(database, async (_, digests) => t.is(digests.dump, digests.copy))
})

/** Files of a dump whose checksums are right, whatever is in them. */
function summed({ SHA256SUMS: _, ...files }: Record<string, Buffer>): Record<string, Buffer> {
  const sums = Object.entries(files).map(
    ([name, content]) => `${createHash('sha256').update(content).digest('hex')}  ${name}\n`,
  )
  return { ...files, SHA256SUMS: Buffer.from(sums.join('')) }
}

test.serial('postgres: what Postgres cannot load is a damaged dump, also when its checksums are right', async t => {
  const database = await serving()
  await runAsCustomer(database, [
    'create role maker',
    `alter role maker set work_mem = '8MB'`,
    'create table numbers (n int)',
    'insert into numbers select generate_series(1, 1000)',
  ])
  const folder = database.dumpFolder()
  const digest = await database.locally(local => contents.dump(local, database.job(folder)))
  const files = filesOf(folder)
  const dump = files['0.dump']!
  const accounts = JSON.parse(files['databases.json']!.toString())
  const changed = (change: object) => ({ 'databases.json': Buffer.from(JSON.stringify({ ...accounts, ...change })) })
  const forged: Record<string, Record<string, Buffer>> = {
    'a dump that ends early': { '0.dump': dump.subarray(0, dump.length * 0.8) },
    'no dump': { '0.dump': Buffer.alloc(0) },
    'no list': { 'databases.json': Buffer.from('null') },
    'no roles': changed({ roles: [], memberships: [], settings: [] }),
    'an owner that is no role': changed({ databases: [{ ...accounts.databases[0], owner: 'nobody' }] }),
    'a membership that nobody could have granted': changed({
      memberships: [{ role: 'maker', member: 'default', grantor: 'default', admin: true, inherit: true, set: true }],
    }),
    'a membership in the role of the platform': changed({
      memberships: [
        { role: 'berth_platform', member: 'default', grantor: null, admin: false, inherit: true, set: true },
      ],
    }),
    'a setting that only the platform may store': changed({
      settings: [{ database: null, role: 'default', setting: 'session_preload_libraries=evil' }],
    }),
    'a right that is a statement': changed({
      databases: [{ ...accounts.databases[0], grants: [[null, 'ALL; --', false]] }],
    }),
  }
  const dumps = Object.values(forged).map(change => summed({ ...files, ...change }))
  const outcomes = await outcomesOf([...dumps, summed(files)])
  t.is(outcomes.pop(), digest!, 'the whole one is accepted after all of them')
  for (const [n, what] of Object.keys(forged).entries()) t.true(outcomes[n] instanceof DumpCorrupt, what)
})
