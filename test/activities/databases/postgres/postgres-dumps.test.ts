import { createHash } from 'node:crypto'
import test from 'ava'
import { DumpCorrupt, DumpPrevented } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { readAccounts, roleStatements } from '../../../../activities/databases/engines/postgres/contents/accounts.ts'
import { asPlatform, postgresEngine } from '../../../../activities/databases/engines/postgres/postgres.ts'
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

test.serial('postgres: a database that defines more than its host can have in memory is not read', async t => {
  const database = await serving()
  await runAsCustomer(database, [
    'create table wordy (a int, b int, c int, d int, e int)',
    `do $$begin for n in 0..4 loop
      execute format('comment on column wordy.%I is %L', chr(97 + n), repeat('x', 30000000)); end loop; end$$`,
  ])
  const digest = () => database.locally(contents.digest)
  const message = 'The database cannot be compared: what it defines has more than 128 MB.'
  await t.throwsAsync(digest(), { instanceOf: DumpPrevented, message })
  await runAsCustomer(database, ['alter table wordy drop column e'])
  await t.notThrowsAsync(digest())
})

test.serial('postgres: a database with 5,000 tables has a dump', async t => {
  const database = await serving()
  await runAsCustomer(database, [
    `do $$begin for n in 1..5000 loop execute format('create table t%s (id int primary key, a int unique, b int unique, c int unique)', n);
      if n % 100 = 0 then commit; end if; end loop; end$$`,
  ])
  const digest = await database.locally(local => contents.dump(local, database.job(database.dumpFolder())))
  t.is(await database.locally(contents.digest), digest!)
})

test.serial('postgres: more memberships of roles than anyone has on purpose are not read', async t => {
  const database = await serving()
  await runAsCustomer(database, ['create role one', 'create role other', 'grant one to other'])
  const count = 'select count(*)::int as n from pg_auth_members'
  await database.locally(local =>
    asPlatform(local, {}, async client => {
      const { n } = (await client.query(count)).rows[0]
      t.is((await readAccounts(client, n)).roles.length, 3)
      const message = `The database cannot be compared: it has more than ${n - 1} memberships of roles.`
      await t.throwsAsync(readAccounts(client, n - 1), { instanceOf: DumpPrevented, message })
    }),
  )
})

test.serial('postgres: the order of many memberships is found by looks at each of them', t => {
  const many = 20_000
  let looks = 0
  const name = (n: number) => `r${n}`
  // Each was granted by the member of the one before.
  const memberships = Array.from({ length: many }, (_, n) => ({
    ...{ role: 'team', member: name(n), admin: true, inherit: true, set: true },
    get grantor() {
      looks++
      return n === 0 ? null : name(n - 1)
    },
  }))
  const role = { attributes: null, comment: null }
  const roles = ['team', ...memberships.map(({ member }) => member)].map(each => ({ ...role, name: each }))
  const statements = roleStatements({ roles, memberships: memberships.toReversed() })
  t.true(looks <= 10 * many, `${looks} looks`)
  t.is(statements.length, many)
  t.regex(statements.at(-1)!, new RegExp(`to "${name(many - 1)}" .* granted by "${name(many - 2)}"$`))
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
  for (const [n, what] of Object.keys(forged).entries()) {
    t.true(outcomes[n] instanceof DumpCorrupt, what)
    t.regex((outcomes[n] as DumpCorrupt).message, /^The dump of Postgres is damaged or incomplete: \S.{3}/, what)
  }
  t.regex((outcomes[4] as DumpCorrupt).message, /role "nobody" does not exist/)
})
