import test from 'ava'
import { addressOf, resolvesNames } from '../../../../api/v2/databases/database-address.ts'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import type { DatabasePlace } from '../../../../policy/databases/connection-url.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { rows } from '../../../kit/rows/rows.ts'

const api = testApi()

test('a name is looked up once for all names of its domain', async t => {
  const asked: string[] = []
  const resolves = resolvesNames(async name => {
    asked.push(name)
    if (name.endsWith('.dead.test')) throw new Error('ENOTFOUND')
    return ['192.0.2.1', '192.0.2.2']
  })
  const both = ['192.0.2.1', '192.0.2.2']
  t.deepEqual(await Promise.all(['a.live.test', 'b.live.test', 'a.dead.test'].map(resolves)), [both, both, []])
  t.deepEqual([await resolves('c.live.test'), await resolves('c.dead.test')], [both, []])
  t.deepEqual(asked, ['a.live.test', 'a.dead.test'])
})

test('a resolver that does not answer counts as a name that leads nowhere', async t => {
  const resolves = resolvesNames(() => new Promise(() => {}), 20)
  t.deepEqual(await resolves('a.silent.test'), [])
})

test('the resolver of this machine knows its own name', async t => {
  const resolves = resolvesNames(undefined, 60_000)
  t.true((await resolves('localhost')).includes('127.0.0.1'))
  t.deepEqual(await resolves('db.invalid'), [])
})

test.serial('a database is reached by its name, or by the address of its host', async t => {
  const { db, makeDatabase, makeUser, services } = api()
  const { id, port } = await makeDatabase(await makeUser())
  const row = (await loadDatabase(db, id))!
  const { config } = services
  t.deepEqual(await addressOf(row, { db, config, resolvesName: async () => ['203.0.113.9'] }), {
    host: `db-${id}.${config.databases.domain}`,
    port,
  })
  await db('hosts').update({ address: '192.0.2.7' })
  t.deepEqual(await addressOf(row, { db, config, resolvesName: async () => [] }), { host: '192.0.2.7', port })
})

/** The host in the URL of a database on `h2`, next to a database on `h1` at the same port. */
async function hostInUrl(places: [DatabasePlace | undefined, DatabasePlace | undefined], found: readonly string[]) {
  const { db, makeDatabase, makeUser, services } = api()
  const make = rows(db)
  await db('hosts').whereNotIn('id', ['h1', 'h2']).delete()
  for (const [n, databases] of places.entries())
    await make.databaseHost(`h${n + 1}`, { address: `10.0.0.${n + 1}`, memoryMb: 10_000_000, databases })
  await db('hosts').update({ last_seen_at: '2100-01-01', draining: false })
  const { id } = await makeDatabase(await makeUser())
  await db('databases')
    .where({ id })
    .update({ host_id: 'h2', port: 20_000 + ++ports })
  const row = (await loadDatabase(db, id))!
  const asked: string[] = []
  const resolvesName = async (name: string) => {
    asked.push(name)
    return found
  }
  const { host } = await addressOf(row, { db, config: services.config, resolvesName })
  return { host: host.replace(id, 'ID'), asked: asked.map(name => name.replace(id, 'ID')) }
}
let ports = 0

const at = (domain: string, ...addresses: string[]): DatabasePlace => ({ domain, addresses })

test.serial('of two hosts that share a domain, only the one that a name leads to is reached by it', async t => {
  const shared = [at('db.test', '10.0.0.1', '203.0.113.1'), at('db.test', '10.0.0.2', '203.0.113.2')] as const
  const of = async (...found: string[]) => (await hostInUrl([...shared], found)).host
  t.is(await of('10.0.0.1'), '10.0.0.2', 'it leads to the other host, where the port is another account’s')
  t.is(await of('203.0.113.1'), '10.0.0.2')
  t.is(await of('198.51.100.1'), '10.0.0.2', 'nobody knows which of both is behind it')
  t.is(await of('10.0.0.1', '10.0.0.2'), '10.0.0.2', 'it leads to both in turn')
  t.is(await of(), '10.0.0.2')
  t.is(await of('10.0.0.2'), 'db-ID.db.test')
  t.is(await of('203.0.113.2'), 'db-ID.db.test')
  t.is(await of('2001:db8::1', '203.0.113.2'), 'db-ID.db.test', 'databases listen at IPv4 addresses only')
  const [, two] = shared
  t.is((await hostInUrl([at('DB.test', '10.0.0.1'), two], ['198.51.100.1'])).host, '10.0.0.2', 'in other letters')
  const { db } = api()
  t.is((await hostInUrl([undefined, two], ['198.51.100.1'])).host, 'db-ID.db.test', 'the other says nothing yet')
  await db('hosts').where({ id: 'h1' }).update({ database_domain: 'db.test', forgotten_at: db.fn.now() })
  const row = (await db('databases').where({ host_id: 'h2' }).orderBy('port', 'desc').first())!
  const { config } = api().services
  const { host } = await addressOf(row, { db, config, resolvesName: async () => ['198.51.100.1'] })
  t.is(host, `db-${row.id}.db.test`, 'a forgotten host has no databases')
  await db('hosts').update({ forgotten_at: null })
})

test.serial('with one domain for each host, a name in the domain of the database’s own host is used', async t => {
  const places = [at('one.test', '10.0.0.1'), at('two.test', '10.0.0.2')] as const
  for (const found of ['10.0.0.2', '198.51.100.1']) {
    const { host, asked } = await hostInUrl([...places], [found])
    t.deepEqual([host, asked], ['db-ID.two.test', ['db-ID.two.test']])
  }
  t.is((await hostInUrl([...places], [])).host, '10.0.0.2')
})

test.serial('a name that has the address of another host is not used, even in a domain of its own', async t => {
  // As of a record of `*.test` that was made for the first host.
  const places = [at('test', '10.0.0.1', '203.0.113.1'), at('two.test', '203.0.113.2')] as const
  t.is((await hostInUrl([...places], ['10.0.0.1'])).host, '203.0.113.2')
  t.is((await hostInUrl([...places], ['203.0.113.1'])).host, '203.0.113.2')
  t.is((await hostInUrl([...places], ['10.0.0.2'])).host, '203.0.113.2', 'its own address, where no database listens')
})

test.serial('the URL has the address at which the host publishes databases, where no name leads there', async t => {
  for (const published of ['203.0.113.2', '10.0.0.2'])
    t.is((await hostInUrl([undefined, at('two.test', published)], [])).host, published)
  const loopback = await hostInUrl([undefined, at('two.test', '127.0.0.1')], [])
  t.is(loopback.host, '10.0.0.2', 'where they are not open, and not another account’s on the machine of the caller')
})

test.serial('a host of an older version is reached as before: in our domain, or at its address', async t => {
  const before = await hostInUrl([at('apps.localhost', '10.0.0.1'), undefined], ['10.0.0.1'])
  t.deepEqual(before, { host: 'db-ID.apps.localhost', asked: ['db-ID.apps.localhost'] })
  t.is((await hostInUrl([undefined, undefined], [])).host, '10.0.0.2')
})
