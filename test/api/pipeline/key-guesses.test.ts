import test from 'ava'
import { revokeKey } from '../../../db/accounts/accounts.ts'
import { newApiKey } from '../../../policy/accounts/credentials.ts'
import { masterKey, openApiFor, type TestApi } from '../../kit/actors/api.ts'
import { chunkedAs } from '../../kit/actors/chunked.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const undo: (() => Promise<unknown>)[] = []
// Serial and first: the database that they stand on goes after them.
test.serial.after.always('stop both', async () => {
  for (const step of undo.reverse()) await step()
})
const database = testDatabase()

let one: TestApi
let two: TestApi
/** Two processes that share a port, behind a proxy that tells where somebody calls from. */
test.before('start both', async () => {
  const options = { config: { apiProcesses: 2, trustedProxies: ['127.0.0.1', '::1'] } }
  one = await openApiFor(await database, options, undo)
  two = await openApiFor(await database, options, undo)
})

const ask = async (api: TestApi, key: string, from: string) =>
  (await api.as(key).get('/v2/users/me', { 'x-forwarded-for': from })).status

test('an address that keeps trying keys of no account is refused by both processes, and its valid keys work at both', async t => {
  const ana = await one.makeUser()
  const { key: spare } = await one.makeKey(ana, {})
  const dead = await one.makeKey(ana, {})
  await revokeKey(one.db, dead.id)
  const guesser = '203.0.113.7'
  for (let n = 0; n < 20; n++) t.is(await ask(n % 2 ? one : two, dead.key, guesser), 401)
  // Made live again in the rows alone: who is asked without a look there still says no, and everybody else is let in.
  await one.db('api_keys').where({ id: dead.id }).update({ revoked_at: null })
  for (const api of [one, two]) {
    t.is(await ask(api, dead.key, guesser), 401)
    t.is(await ask(api, ana.key, guesser), 200)
    t.is(await ask(api, spare, guesser), 200, 'one that was never used before')
  }
  t.deepEqual([await ask(one, dead.key, '203.0.113.8'), await ask(two, dead.key, '203.0.113.8')], [200, 200])
  t.is(await ask(one, newApiKey(masterKey, ana.id).key, guesser), 401)
})

test('20 keys of no account from one /64 are one guesser; a forged address incriminates no other', async t => {
  const ana = await one.makeUser()
  const dead = await one.makeKey(ana, {})
  await revokeKey(one.db, dead.id)
  for (let n = 0; n < 20; n++)
    t.is(await ask(n % 2 ? one : two, dead.key, `198.51.100.1, 2001:db8::${n.toString(16)}`), 401)
  await one.db('api_keys').where({ id: dead.id }).update({ revoked_at: null })
  for (const api of [one, two]) {
    t.is(await ask(api, dead.key, '2001:db8::ffff:1'), 401)
    t.is(await ask(api, dead.key, '2001:db8:0:1::1'), 200)
    t.is(await ask(api, dead.key, '198.51.100.1'), 200)
  }
})

test('an address that keeps trying a dead upload token is refused without a lookup, and others are not', async t => {
  const ana = await one.makeUser()
  const { token } = (await one.blobAs(ana).post('/v1/upload-tokens', '{"max_uses":5}')).body.response
  const from = (address: string) => chunkedAs(one.blobAs(token)).init({}, { 'x-forwarded-for': address })
  const change = (expiresAt: string) =>
    one.db('upload_tokens').where({ owner_id: ana.id }).update({ expires_at: expiresAt })
  await change('2000-01-01')
  for (let n = 0; n < 10; n++) t.is((await from('203.0.113.30')).status, 401)
  await change('2100-01-01')
  t.is((await from('203.0.113.30')).status, 401)
  t.is((await from('203.0.113.31')).status, 200)
})

test('a flood of one key delays only itself, even when its requests share a lookup', async t => {
  const ana = await one.makeUser()
  const unknown = newApiKey('cd'.repeat(32), ana.id).key
  for (let n = 0; n < 10; n++) t.is(await ask(one, unknown, '203.0.113.20'), 401)
  const startedAt = performance.now()
  const flood = Array.from({ length: 60 }, () => ask(one, unknown, '203.0.113.20'))
  t.deepEqual([...new Set(await Promise.all(flood))], [401])
  t.true(performance.now() - startedAt > 250, '60 refusals take 59 turns of 5 ms, however quick the machine is')
  t.is(await ask(one, ana.key, '203.0.113.20'), 200)
})
