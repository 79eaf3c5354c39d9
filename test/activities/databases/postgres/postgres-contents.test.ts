import test, { type ExecutionContext } from 'ava'
import type { ClientConfig } from 'pg'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { asPlatform, postgresEngine } from '../../../../activities/databases/engines/postgres/postgres.ts'
import { type ContentsUnderTest, databaseContentsContract } from '../../../contracts/database-contents.ts'
import type { EngineContainer } from '../../../kit/databases/engine-container.ts'
import {
  asCustomer,
  definitionsOfCustomer,
  reader,
  rowsOfCustomer,
  runAsCustomer,
} from '../../../kit/databases/postgres-contents.ts'

const other = 'Other "db" \\ \'ä\''

const one =
  (statement: string, change: ClientConfig = {}) =>
  (database: EngineContainer): Promise<void> =>
    runAsCustomer(database, [statement], change)

/** Of all databases together. */
const databases = [
  `create database "Other ""db"" \\ 'ä'" template template0 locale_provider icu icu_locale 'de' locale 'C' connection limit 9`,
  `create database maker_s owner maker`,
  `alter database "Other ""db"" \\ 'ä'" set search_path = one, "Two ""2""", public`,
  `alter database "Other ""db"" \\ 'ä'" set intervalstyle = 'iso_8601'`,
  // Only who has loaded an extension may store a setting of it.
  `select similarity('one', 'other')`,
  `alter database maker_s set pg_trgm.similarity_threshold = '0.5'`,
  `alter role team in database "default" set work_mem = '8MB'`,
  `comment on database maker_s is 'of ''maker'''`,
  `revoke connect on database maker_s from public`,
  `grant connect on database maker_s to team with grant option`,
]

const inOther = [
  'drop schema public',
  'create schema one',
  `create table one.things (id int primary key, what text)`,
  `insert into one.things values (1, 'ß'), (2, 'z')`,
]

const queries: [query: string, rows: unknown[]][] = [
  ['select count(*)::int as n, max(twice)::int as m from cities', [{ n: 3000, m: 6000 }]],
  ['select count(*)::int as n from shops', [{ n: 150 }]],
  ['select count::int as n from counts', [{ n: 3000 }]],
  ['select total(1) as n, product(g) as p from generate_series(1, 5) g', [{ n: 3, p: 120 }]],
  ['select last_value::int as n, is_called as c from counter', [{ n: 105, c: true }]],
  ['select last_value::int as n, is_called as c from "Never used"', [{ n: 1, c: false }]],
  ['select length(lo_get(4711))::int as n, length(lo_get(4712))::int as m', [{ n: 15_000, m: 10_003 }]],
  [
    'select extname::text as n, pg_get_userbyid(extowner)::text as o from pg_extension order by 1',
    [
      { n: 'pg_trgm', o: 'default' },
      { n: 'pgcrypto', o: 'default' },
      { n: 'plpgsql', o: 'berth_platform' },
    ],
  ],
  [
    `select rolname::text as n, rolconnlimit as c, rolcanlogin as l, rolsuper as s from pg_roles
      where rolname !~ '^pg_|^default$|^berth_platform$' order by 1`,
    [
      { n: reader.name, c: 7, l: true, s: false },
      { n: 'maker', c: -1, l: true, s: false },
      { n: 'team', c: -1, l: false, s: false },
    ],
  ],
  [
    `select pg_get_userbyid(relowner)::text as o from pg_class where relname in ('cities', 'empty') order by 1`,
    [{ o: reader.name }, { o: 'default' }],
  ],
  [
    `select has_table_privilege('team', 'cities', 'select with grant option') as a, has_table_privilege('team', 'cities', 'delete') as b,
      has_function_privilege('team', 'total(int, int)', 'execute') as c, has_schema_privilege('maker', 'tools', 'create') as d,
      has_schema_privilege('maker', 'public', 'create') as e, has_database_privilege('maker', 'default', 'create') as f`,
    [{ a: true, b: false, c: false, d: false, e: false, f: false }],
  ],
]

async function found(t: ExecutionContext, database: EngineContainer): Promise<void> {
  await asCustomer(database, async client => {
    await client.query('begin')
    for (const [query, rows] of queries) t.deepEqual((await client.query(query)).rows, rows, query)
    await client.query(`insert into cities (id, name) overriding system value values (-1, 'one more')`)
    await t.throwsAsync(
      client.query(`insert into cities (id, name, state) overriding system value values (-2, 'x', 'odd')`),
      {
        message: /check constraint/,
      },
    )
    await client.query('rollback')
    for (const evil of ['alter role "default" superuser', `copy (select 1) to program 'id'`])
      await t.throwsAsync(client.query(evil), { message: /permission denied/ })
    // Nobody has the rights any more that loading needed.
    await client.query('set role maker')
    for (const evil of ['create table tools.evil ()', 'create table public.evil ()', 'create schema evil'])
      await t.throwsAsync(client.query(evil), { message: /permission denied/ }, evil)
  })
  await asCustomer(
    database,
    async client => {
      t.deepEqual((await client.query(`select what from things order by what`)).rows, [{ what: 'ß' }, { what: 'z' }])
      t.deepEqual((await client.query('show intervalstyle')).rows, [{ IntervalStyle: 'iso_8601' }])
    },
    { database: other },
  )
  // Passwords of its own roles are in no dump, so nobody logs in with them before the customer sets others.
  await t.throwsAsync(
    asCustomer(database, async () => {}, { user: reader.name, password: reader.password }),
    { code: '28P01' },
  )
  await runAsCustomer(database, [`alter role "Leser ""ä""" password 'another'`])
  await asCustomer(database, client => client.query('select 1'), { user: reader.name, password: 'another' })
}

const changes: [what: string, statement: string, change?: ClientConfig][] = [
  ['a value', `update cities set state = 'old' where id = 77`],
  ['a row', 'delete from cities where id = 3000'],
  ['a row in a partition', `update logs set what = 'other' where what = 'what 600'`],
  ['a row of another database', 'delete from things where id = 1', { database: other }],
  ['an empty table', 'insert into nothing default values'],
  ['a sequence', `select nextval('counter')`],
  ['a sequence that was never used', `select nextval('"Never used"')`],
  ['a large object', `select lo_put(4711, 14999, 'x')`],
  ['a default', 'alter table parent alter c set default 4'],
  ['a check', `alter table cities drop constraint short`],
  [
    'a check with another list',
    `alter table cities drop constraint cities_state_check, add check (state in ('new', 'old', 'odd'))`,
  ],
  ['an index', 'drop index names'],
  ['a trigger', 'alter table cities disable trigger notes'],
  ['a view', 'create or replace view of_cities with (security_barrier) as select name, state from cities where id = 1'],
  ['a function', 'create or replace function note() returns trigger language plpgsql as $$begin return null; end$$'],
  ['a policy', 'alter policy own on shops using (city > 1)'],
  ['a type', `alter type mood add value 'new'`],
  ['a comment', `comment on table cities is 'cities'`],
  ['a right', 'grant delete on cities to team'],
  [
    'an owner',
    'grant create on schema public to team; alter table fast owner to team; revoke create on schema public from team',
  ],
  ['a role', 'create role another'],
  ['a membership', 'grant another to team'],
  ['a setting of a role', `alter role team set work_mem = '9MB'`],
  ['a setting of a database', `alter database maker_s set work_mem = '9MB'`],
  ['a right to a database', 'grant create on database maker_s to team'],
  ['a schema', 'create schema new'],
  ['an extension', 'drop extension pgcrypto'],
  ['a database', 'drop database maker_s'],
]

const postgres: ContentsUnderTest = {
  adapter: postgresEngine,
  contents: contentsOf('postgres'),
  engine: 'postgres',
  version: '17',
  memoryMb: 512,
  files: ['databases.json', '0.dump'],
  digestOfDump: true,
  found,
  async write(database) {
    await runAsCustomer(database, [...definitionsOfCustomer, ...rowsOfCustomer, ...databases])
    await runAsCustomer(database, inOther, { database: other })
  },
  async writeOtherwise(database) {
    await runAsCustomer(database, [
      ...definitionsOfCustomer,
      'create table passing (n int)',
      ...rowsOfCustomer,
      'drop table passing',
    ])
    // Many rows are written anew, at another place.
    await runAsCustomer(database, [
      'update cities set name = name where id < 1500',
      'update logs set what = what where random() < 0.5',
      'vacuum full cities',
      ...databases,
    ])
    await runAsCustomer(database, [...inOther.slice(0, 3), `insert into one.things values (2, 'z'), (1, 'ß')`], {
      database: other,
    })
  },
  changes: Object.fromEntries(changes.map(([what, statement, change]) => [what, one(statement, change)])),
  async secrets({ locally }) {
    const { rows } = await locally(local =>
      asPlatform(local, {}, client => client.query('select rolpassword from pg_authid where rolpassword is not null')),
    )
    return [reader.password, ...rows.flatMap(({ rolpassword }) => [rolpassword, ...rolpassword.split(/[$:]/).slice(2)])]
  },
}

databaseContentsContract(test.serial, 'postgres', () => postgres)
