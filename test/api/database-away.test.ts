import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { authenticator } from '../../api/pipeline/authenticate.ts'
import { Limiter } from '../../api/pipeline/limiter.ts'
import { blobEndpoints } from '../../api/v1/endpoints.ts'
import { endpoints } from '../../api/v2/endpoints.ts'
import { openDatabase } from '../../db/database.ts'
import { defaultPlans } from '../../policy/accounts/plans.ts'
import { linkKey, linkPath, linkSecret } from '../../policy/apps/snapshot-links.ts'
import { credentialBelievedMs, databaseTimeouts } from '../../policy/timeouts.ts'
import { masterKey, openApiFor, type TestApi, type TestUser, testApi } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { deliver, webhookOf } from '../kit/git/deliveries.ts'
import { here, madeObject } from '../kit/objects/stored-objects.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { relayTo } from '../kit/servers/relay.ts'
import { zipOf } from '../kit/zips.ts'

const api = testApi()
const database = testDatabase()

/** One request of each way in which the surfaces come to Postgres. */
async function requestsTo(near: TestApi, ana: TestUser): Promise<Record<string, () => Promise<Asked>>> {
  const app = await near.makeApp(ana)
  const object = await madeObject(near, ana)
  const open = await madeObject(near, ana, { bucket: 'public' })
  const blob = near.blobAs(ana)
  const share = await blob.post('/v1/shares', JSON.stringify({ object: object.id }))
  const link = await blob.get(`/v1/objects/download?object=${object.id}&redirect=false`)
  const snapshot = { kind: 'applications', ownerId: ana.id, name: app.id, version: 'v'.repeat(32) } as const
  const key = linkKey(linkSecret(masterKey), snapshot, Math.floor(Date.now() / 1000) + 3600)
  const webhook = await webhookOf(near, ana, app.id)
  const as = near.as(ana)
  const archive = () => {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(zipOf({ 'index.js': '' }))]), 'app.zip')
    return form
  }
  const fetched = (url: string) => async () => {
    const answer = await fetch(url)
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  return {
    'who am I': () => as.get('/v2/users/me'),
    'who am I, by a session': () => near.as(ana.session).get('/v2/users/me'),
    'an application': () => as.get(`/v2/apps/${app.id}`),
    'a command': () => as.post(`/v2/apps/${app.id}/start`),
    'an upload': () => as.post('/v2/apps', archive()),
    'a sign-in': () => near.as(undefined).post('/v2/account/sign-in', '{"email":"nobody@example.org"}'),
    'a list of objects': () => blob.get('/v1/objects'),
    'an upload of an object': () => blob.post('/v1/objects', archive()),
    'a public file': fetched(`${near.publicUrl}/${open.id}`),
    'a temporary link': fetched(here(near, link.body.response.url)),
    'a share': fetched(here(near, share.body.response.url)),
    'a link of a snapshot': fetched(`${near.filesUrl}${linkPath(snapshot)}?${key}`),
    'a push': () => deliver(near, webhook),
  }
}

interface Asked {
  status: number
  headers: Headers
  text: string
}

const within = 3000

/** Requests that had no answer when their 3 s were over, by the clock of the process that serves them. Say `end` when done. */
function latecomers() {
  const late: string[] = []
  const started = channel('http.server.request.start')
  const note = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse }
    setTimeout(() => response.writableEnded || late.push(String(request.url)), within).unref()
  }
  started.subscribe(note)
  return { late, end: () => void started.unsubscribe(note) }
}

test('no Postgres, and one that hangs: 503 within 3 s, and served again without a restart', async t => {
  t.timeout(120_000)
  const { db: direct, url } = await database
  await rows(direct).host('h1', { memoryMb: 10_000 })
  await direct('hosts').update({ last_seen_at: '2100-01-01' })
  const relay = await relayTo({ port: Number(new URL(url).port), host: '127.0.0.1' })
  const through = new URL(url)
  through.port = String(relay.port)
  const db = openDatabase({ url: through.href, pool: 5, statementTimeoutMs: databaseTimeouts.requestStatementMs })
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    await relay.close()
    for (const step of undo.reverse()) await step()
    await db.destroy()
  })
  const near = await openApiFor(
    await database,
    {
      services: () => ({
        db,
        authenticate: authenticator({ db, masterKey, plans: defaultPlans }),
        limiter: new Limiter(db),
      }),
    },
    undo,
  )
  const ana = await near.makeUser()
  const asked = await requestsTo(near, ana)
  const served = async () => {
    for (const [name, ask] of Object.entries(asked))
      await comesTrue(async () => (await ask()).status !== 503).catch(() => t.fail(`${name} is served`))
  }
  await served()

  const named = [...endpoints, ...blobEndpoints].filter(({ auth }) => auth !== 'public')
  t.true(named.length > 60)
  /** Every operation that wants a credential. */
  const askEverything = () => {
    const answers = named.map(async ({ name, method, path, auth }) => {
      const wire = path.startsWith('/v1/') ? near.blobAs : near.as
      const actor = wire(auth === 'session' ? ana.session : ana.key)
      return { name, ...(await actor.request(method, path.replaceAll(/\{\w+\}/g, ana.id))) }
    })
    return Promise.all(answers)
  }

  for (const mode of ['hang', 'cut'] as const) {
    await relay.mode(mode)
    await sleep(credentialBelievedMs + 100) // so that they ask again
    const { late, end } = latecomers()
    const crowd = Object.entries(asked).flatMap(one => [one, one, one])
    const answers = await Promise.all(crowd.map(async ([name, ask]) => ({ name, ...(await ask()) })))
    const others = await askEverything()
    await sleep(within)
    end()
    for (const { name, status, headers, text } of answers) {
      t.is(status, 503, `${mode}: ${name}: ${text}`)
      // The answer to a git provider says in words what to do.
      if (name !== 'a push') t.truthy(headers.get('retry-after'), `${mode}: ${name}`)
    }
    const wrong = others.filter(({ status, headers }) => status !== 503 || !headers.has('retry-after'))
    t.deepEqual(
      wrong.map(({ name, status }) => `${name}: ${status}`),
      [],
      mode,
    )
    t.deepEqual(late, [], mode)
    await relay.mode('pass')
    await served()
  }
})

test('a key without a legal check never asks Postgres', async t => {
  const services = api().services
  const counting = { calls: 0 }
  const db = new Proxy(services.db, {
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
