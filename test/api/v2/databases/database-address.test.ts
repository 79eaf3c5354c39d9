import { lookup } from 'node:dns/promises'
import test from 'ava'
import { addressOf, resolvesNames } from '../../../../api/v2/databases/database-address.ts'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi()

test('a name is looked up once for all names of its domain', async t => {
  const asked: string[] = []
  const resolves = resolvesNames(async name => {
    asked.push(name)
    if (name.endsWith('.dead.test')) throw new Error('ENOTFOUND')
  })
  t.deepEqual(await Promise.all(['a.live.test', 'b.live.test', 'a.dead.test'].map(resolves)), [true, true, false])
  t.deepEqual([await resolves('c.live.test'), await resolves('c.dead.test')], [true, false])
  t.deepEqual(asked, ['a.live.test', 'a.dead.test'])
})

test('a resolver that does not answer counts as a name that leads nowhere', async t => {
  const resolves = resolvesNames(() => new Promise(() => {}), 20)
  t.false(await resolves('a.silent.test'))
})

test('the resolver of this machine knows its own name', async t => {
  const resolves = resolvesNames(lookup, 60_000)
  t.true(await resolves('localhost'))
  t.false(await resolves('db.invalid'))
})

test('a database is reached by its name, or by the address of its host', async t => {
  const { db, makeDatabase, makeUser, services } = api()
  const { id, port } = await makeDatabase(await makeUser())
  const row = (await loadDatabase(db, id))!
  const { config } = services
  t.deepEqual(await addressOf(row, { db, config, resolvesName: async () => true }), {
    host: `db-${id}.${config.databases.domain}`,
    port,
  })
  await db('hosts').update({ address: '192.0.2.7' })
  t.deepEqual(await addressOf(row, { db, config, resolvesName: async () => false }), { host: '192.0.2.7', port })
})
