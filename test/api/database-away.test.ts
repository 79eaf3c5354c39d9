import test from 'ava'
import { endpoints } from '../../api/app.ts'
import { authenticator } from '../../api/authenticate.ts'
import { Limiter } from '../../api/limiter.ts'
import { blobEndpoints } from '../../api/v1/endpoints.ts'
import { openDatabase } from '../../db/database.ts'
import { defaultPlans } from '../../policy/plans.ts'
import { masterKey, openApiFor, testApi } from '../kit/api.ts'
import { testDatabase } from '../kit/database.ts'
import { relayTo } from '../kit/relay.ts'

const api = testApi()
const database = testDatabase()

test('no Postgres, and one that hangs: 503 within 3 s, and served again without a restart', async t => {
  const { url } = await database
  const relay = await relayTo({ port: Number(new URL(url).port), host: '127.0.0.1' })
  const through = new URL(url)
  through.port = String(relay.port)
  const db = openDatabase({ url: through.href, pool: 5, statementTimeoutMs: 2500 })
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    await relay.close()
    for (const step of undo.reverse()) await step()
    await db.destroy()
  })
  const near = await openApiFor(
    await database,
    {
      parts: () => ({
        db,
        authenticate: authenticator({ db, masterKey, plans: defaultPlans }),
        limiter: new Limiter(db),
      }),
    },
    undo,
  )
  const ana = await near.makeUser()
  const ask = async () => {
    const begun = performance.now()
    const answer = await near.as(ana).get('/v2/users/me')
    return { ...answer, ms: performance.now() - begun }
  }
  t.is((await ask()).status, 200)

  const named = [...endpoints, ...blobEndpoints].filter(({ auth }) => auth !== 'public')
  t.true(named.length > 60)
  /** Every operation that wants a credential, and a public file. */
  const askEverything = () => {
    const answers = named.map(async ({ name, method, path, auth }) => {
      const wire = path.startsWith('/v1/') ? near.blobAs : near.as
      const actor = wire(auth === 'session' ? ana.session : ana.key)
      return { name, ...(await actor.request(method, path.replaceAll(/\{\w+\}/g, ana.id))) }
    })
    const file = fetch(`${near.publicUrl}/pub/${ana.id}/a.txt`).then(({ status, headers }) => ({
      name: 'a public file',
      status,
      headers,
    }))
    return Promise.all([...answers, file])
  }

  for (const mode of ['hang', 'cut'] as const) {
    await relay.mode(mode)
    await new Promise(resolve => setTimeout(resolve, 600))
    const answers = await Promise.all(Array.from({ length: 10 }, ask))
    for (const answer of answers) {
      t.is(answer.status, 503, mode)
      t.is(answer.body.code, 'DATABASE_UNAVAILABLE')
      t.truthy(answer.headers.get('retry-after'))
      t.true(answer.ms < 3500, `${mode}: ${answer.ms}`)
    }
    const begun = performance.now()
    const others = await askEverything()
    t.true(performance.now() - begun < 3500, `${mode}: all of them took ${performance.now() - begun} ms`)
    const wrong = others.filter(({ status, headers }) => status !== 503 || !headers.has('retry-after'))
    t.deepEqual(
      wrong.map(({ name, status }) => `${name}: ${status}`),
      [],
      mode,
    )
    await relay.mode('pass')
    const back = performance.now()
    while ((await ask()).status !== 200) if (performance.now() - back > 8000) break
    t.true(performance.now() - back < 5000, `${mode}: back after ${performance.now() - back} ms`)
  }
})

test('a key without a legal check never asks Postgres', async t => {
  const parts = api().parts
  const counting = { calls: 0 }
  const db = new Proxy(parts.db, {
    get(target, name) {
      if (name === 'client') counting.calls++
      return Reflect.get(target, name)
    },
  })
  const authenticate = authenticator({ db, masterKey, plans: defaultPlans })
  const request = (key: string) => ({ headers: { authorization: key }, rawHeaders: ['Authorization', key] }) as never
  await t.throwsAsync(authenticate(request(`123456789012345678-${'x'.repeat(51)}`), '192.0.2.1'))
  t.is(counting.calls, 0)
  const ana = await api().makeUser()
  await authenticate(request(ana.key), '192.0.2.1')
  t.is(counting.calls > 0, true)
})
