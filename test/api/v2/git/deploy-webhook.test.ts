import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type { Log } from '../../../../api/pipeline/core-services.ts'
import type { Scope } from '../../../../policy/accounts/scopes.ts'
import { openApiFor, testApi } from '../../../kit/actors/api.ts'
import { deliver, webhookOf } from '../../../kit/git/deliveries.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const said: string[] = []
const write = (fields: object, message: string) => {
  const shown = (value: unknown): unknown =>
    value instanceof Error ? { ...value, message: value.message, stack: value.stack } : value
  said.push(JSON.stringify(fields, (_, value) => shown(value)) + message)
}
const log: Log = { info: write, warn: write, error: write }
const api = testApi({ services: () => ({ log }) })
const database = testDatabase()

const set = async (body: object) => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const path = `/v2/apps/${app.id}/deploy/webhook`
  return { ana, app, path, answer: await api().as(ana).post(path, JSON.stringify(body)) }
}

test('the address is 64 hex below the base address; setting again keeps it, a removal changes it', async t => {
  const { ana, path, answer } = await set({ access_token: 'ghp_one' })
  const base = api().services.config.urls.base
  t.regex(answer.body.response.webhook, new RegExp(`^${base}/v2/git/webhook/[0-9a-f]{64}$`))
  const send = (body: object) => api().as(ana).post(path, JSON.stringify(body))
  t.deepEqual((await send({ access_token: 'ghp_two', secret: 'long enough' })).body, answer.body)
  t.deepEqual((await send({ access_token: '@' })).body, { status: 'success' })
  t.deepEqual((await send({ access_token: '@' })).body, { status: 'success' }, 'removing nothing')
  t.not((await send({ access_token: 'ghp_one' })).body.response.webhook, answer.body.response.webhook)
})

test('setting again without a secret keeps the secret; null removes it', async t => {
  const secret = 'long enough'
  const { ana, path, answer } = await set({ access_token: 'one', secret })
  const webhook = new URL(answer.body.response.webhook).pathname
  const setAgain = (body: object) => api().as(ana).post(path, JSON.stringify(body))
  const unsigned = async () => (await deliver(api(), webhook)).status
  t.is(await unsigned(), 401)
  t.deepEqual((await setAgain({ access_token: 'two' })).body, answer.body)
  t.is(await unsigned(), 401)
  t.is((await deliver(api(), webhook, { secret })).status, 200)
  t.is((await setAgain({ access_token: 'three', secret: null })).status, 200)
  t.is(await unsigned(), 200)
})

test('tokens of any form are accepted, malformed ones refused', async t => {
  const good = ['x', 'x'.repeat(1024), 'ATBB/with+odd=chars', 'ünï']
  const bad = [undefined, '', ' ', 'x'.repeat(1025), 'a\nb', 'a\0b', 5, '\ud800']
  for (const access_token of good) t.is((await set({ access_token })).answer.status, 200, String(access_token))
  for (const access_token of bad) {
    const { answer } = await set({ access_token })
    t.deepEqual([answer.status, answer.body.code], [400, 'INVALID_ACCESS_TOKEN'], String(access_token))
  }
  for (const secret of ['short', 'x'.repeat(256), 5]) {
    const { answer } = await set({ access_token: 'x', secret })
    t.deepEqual([answer.status, answer.body.code], [400, 'INVALID_PARAMETERS'], String(secret))
  }
})

test('a key that may only read is not shown the address, with which it could deploy', async t => {
  const { ana, path, answer } = await set({ access_token: 'one' })
  const current = path.replace('deploy/webhook', 'deployments/current')
  const shownTo = async (scopes: Scope[] | undefined) => {
    const { key } = await api().makeKey(ana, { scopes })
    return (await api().as(key).get(current)).body.response
  }
  t.deepEqual(await shownTo(['apps:read']), {})
  t.deepEqual(await shownTo(['apps:read', 'apps:deploy']), answer.body.response)
  t.deepEqual(await shownTo(undefined), answer.body.response)
})

test('the current deployment shows the webhook and its changes immediately, in every process', async t => {
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    for (const step of undo.reverse()) await step()
  })
  const near = await openApiFor(await database, {}, undo)
  const far = await openApiFor(await database, {}, undo)
  await near
    .db('hosts')
    .insert({ id: 'h1', address: '127.0.0.1', memory_mb: 1e6, disk_mb: 1e6, last_seen_at: '2100-01-01' })
  const ana = await near.makeUser()
  const app = await near.makeApp(ana)
  const current = async (from = near) =>
    (await from.as(ana).get(`/v2/apps/${app.id}/deployments/current`)).body.response
  t.deepEqual(await current(), {})
  t.deepEqual(await current(far), {})
  await near.db('users').where({ id: ana.id }).update({ name: 'Anna' })
  const hook = await webhookOf(near, ana, app.id)
  t.is(new URL((await current()).webhook).pathname, hook)
  const seen = async () => {
    for (let i = 0; i < 1500 && !(await current(far)).webhook; i++) await sleep(20)
    return (await current(far)).webhook
  }
  t.is(new URL(await seen()).pathname, hook)
  // The announcement reaches its own process too.
  await sleep(300)
  t.truthy((await current()).webhook)
  await near.db('git_webhooks').delete()
  t.truthy((await current()).webhook, 'kept for 5 minutes: nobody announced a change')
  await near.as(ana).post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: '@' }))
  t.deepEqual(await current(), {})
  await near.db('git_installations').insert({ id: 7, user_id: ana.id, account: 'ana', member: 'ana', member_id: 1 })
  await near.db('git_links').insert({
    app_id: app.id,
    user_id: ana.id,
    installation_id: 7,
    repository_id: 4711,
    full_name: 'ana/shop',
    branch: 'main',
    clone_url: 'https://git.example.org/ana/shop.git',
  })
  await webhookOf(near, ana, app.id)
  t.deepEqual((await current()).app, { id: 4711, name: 'ana/shop', branch: 'main' })
  t.truthy((await current()).webhook, 'both at once')
})

test('token and secret are nowhere in clear text: no table, no log line, no answer', async t => {
  const [token, secret] = ['canary-token-5d1f', 'canary-secret-77ab']
  const { ana, app, answer, path } = await set({ access_token: token, secret })
  const hook = new URL(answer.body.response.webhook).pathname
  const answers = [
    answer,
    await deliver(api(), hook, { secret }),
    await deliver(api(), hook, { provider: 'gitlab', secret }),
    await deliver(api(), hook, { secret: `${secret}x` }),
    await deliver(api(), hook, { provider: 'gitlab', ref: 'refs/tags/v1', secret }),
    await api()
      .as(ana)
      .post(path, JSON.stringify({ access_token: `${token}\n`, secret })),
    await api().as(ana).post(path, `{"access_token":"${token}`),
    await api().as(ana).get(`/v2/apps/${app.id}/webhook-deliveries`),
    await api().as(ana).get(`/v2/apps/${app.id}/deployments`),
    await api().as(ana).get(`/v2/apps/${app.id}/deployments/current`),
  ]
  const address = hook.split('/').at(-1)!
  const { rows: tables } = await api().db.raw(`select tablename from pg_tables where schemaname = 'public'`)
  const stored: string[] = []
  for (const { tablename } of tables) {
    const { rows } = await api().db.raw(`select t::text as line from ?? t`, [tablename])
    stored.push(...rows.map((row: { line: string }) => row.line))
  }
  t.true(stored.some(line => line.includes(app.id)))
  t.true(said.length > 0)
  for (const word of [token, secret]) {
    const forms = [word, Buffer.from(word).toString('base64').replace(/=+$/, ''), Buffer.from(word).toString('hex')]
    for (const form of forms) {
      t.false(
        stored.some(line => line.includes(form)),
        `table: ${form}`,
      )
      t.false(
        said.some(line => line.includes(form)),
        `log: ${form}`,
      )
      t.false(
        answers.some(({ text }) => text.includes(form)),
        `answer: ${form}`,
      )
    }
  }
  t.false(
    stored.some(line => line.includes(address)),
    'the address is a credential',
  )
  t.false(said.some(line => line.includes(address)))
})
