import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { openDatabase } from '../../../../db/database.ts'
import { readAccessToken } from '../../../../db/git/webhooks.ts'
import { type TestUser, testApi, testKeys } from '../../../kit/actors/api.ts'
import { deletionUnderWay } from '../../../kit/actors/deletions.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { cloneUrl, deliver, named, newCommit, pushed, webhookOf } from '../../../kit/git/deliveries.ts'
import { providers } from '../../../kit/git/git-events.ts'

const api = testApi()

async function made(body?: object): Promise<{ ana: TestUser; app: AppRow; hook: string }> {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  return { ana, app, hook: await webhookOf(api(), ana, app.id, body) }
}

const deployments = (appId: string) =>
  api().db('deployments').where({ app_id: appId, source: 'git' }).orderBy('created_at')
const deliveries = async (user: TestUser, appId: string) =>
  (await api().as(user).get(`/v2/apps/${appId}/webhook-deliveries`)).body.response

test('a push of every provider is 200 after delivery, deployment and operation are stored', async t => {
  const { ana, app, hook } = await made({ secret: 'a good secret' })
  api().lanes.asleep = true
  for (const [index, provider] of providers.entries()) {
    const commit = newCommit()
    const answer = await deliver(api(), hook, { provider, commit, branch: `b-${provider}`, secret: 'a good secret' })
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
    const row = (await deployments(app.id)).at(-1)
    t.is(
      answer.text,
      `queued: deployment ${row.id} of commit ${commit.slice(0, 7)} on b-${provider}, position ${index + 1} in the queue`,
    )
    t.like(row, { revision: commit, branch: `b-${provider}`, clone_url: cloneUrl, trigger: 'webhook', restart: true })
    t.like(await api().db('operations').where({ id: row.operation_id }).first(), {
      kind: 'deploy',
      state: 'queued',
      target_id: app.id,
    })
    const [delivery] = await deliveries(ana, app.id)
    t.like(delivery, { provider, verdict: 'queued', deployment_id: row.id, commit, branch: `b-${provider}` })
    t.deepEqual(delivery.reply, { status: 200, text: answer.text })
    t.true(api().lanes.woken.includes(app.id))
  }
})

test('fifty concurrent copies of one delivery are one deployment, and every answer names it', async t => {
  const { ana, app, hook } = await made()
  const sent = { deliveryId: 'same', commit: newCommit() }
  const answers = await Promise.all(Array.from({ length: 50 }, () => deliver(api(), hook, sent)))
  const rows = await deployments(app.id)
  t.is(rows.length, 1)
  t.is(answers.filter(answer => answer.text.startsWith('queued: ')).length, 1)
  t.is(answers.filter(answer => answer.text.startsWith('duplicate: ')).length, 49)
  for (const answer of answers) t.deepEqual([answer.status, named(answer)], [200, rows[0].id])
  t.is((await deliveries(ana, app.id)).length, 1)
  const failed = { state: 'error', code: 'CLONE_FAILED' }
  await api().db('deployments').where({ id: rows[0].id }).update(failed)
  t.regex((await deliver(api(), hook, sent)).text, /^duplicate: /)
  const other = await made()
  t.regex((await deliver(api(), other.hook, sent)).text, /^queued: /, 'ids are remembered per webhook')
})

test('a newer push supersedes only the queued ones of its branch', async t => {
  const { ana, app, hook } = await made()
  api().lanes.asleep = true
  const first = await pushed(api(), hook)
  const other = await pushed(api(), hook, { branch: 'dev' })
  const last = await pushed(api(), hook)
  const list = (await api().as(ana).get(`/v2/apps/${app.id}/deployments`)).body.response
  const of = (id: string) => list.find(([event]: { deployment_id: string }[]) => event?.deployment_id === id)
  t.like(of(first).at(-1), { state: 'error', code: 'DEPLOY_SUPERSEDED', superseded_by: last })
  t.is(of(other).at(-1).state, 'pending')
  t.is(of(last).at(-1).position, 2)
  const seen = await deliveries(ana, app.id)
  const delivery = seen.find((d: { deployment_id: string }) => d.deployment_id === first)
  t.like(delivery, { verdict: 'superseded', superseded_by: last })
  t.is((await deliveries(ana, app.id))[0].deployment_id, last)
})

test('a delivery that deploys nothing is 202, 400, 401, 404, 413 or 415, with a reason, and is listed', async t => {
  const { ana, app, hook } = await made({ secret: 'a good secret' })
  const secret = 'a good secret'
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    api()
      .as(undefined)
      .post(path, body, { 'content-type': 'application/json', ...headers })
  const cases: [string, Promise<{ status: number; text: string }>, number, string][] = [
    ['tag', deliver(api(), hook, { ref: 'refs/tags/v1', secret }), 202, 'ignored: '],
    ['deletion', deliver(api(), hook, { commit: '0'.repeat(40), secret }), 202, 'ignored: '],
    ['branch', deliver(api(), hook, { secret, query: '?branch=prod' }), 202, 'skipped: '],
    ['no signature', deliver(api(), hook), 401, 'refused: '],
    ['wrong', deliver(api(), hook, { secret: 'another' }), 401, 'refused: '],
    ['long branch', deliver(api(), hook, { secret, query: `?branch=${'x'.repeat(257)}` }), 400, 'refused: '],
    ['malformed', post('/v2/git/webhook/abc', '{}'), 400, 'refused: '],
    ['upper case', post(hook.toUpperCase().replace('/V2/GIT/WEBHOOK/', '/v2/git/webhook/'), '{}'), 400, 'refused: '],
    ['unknown', post(`/v2/git/webhook/${'0'.repeat(64)}`, '{}'), 404, 'refused: '],
    ['encoded', post(hook, '{}', { 'content-encoding': 'gzip' }), 415, 'refused: '],
  ]
  for (const [name, answering, status, word] of cases) {
    const answer = await answering
    t.is(answer.status, status, `${name}: ${answer.text}`)
    t.true(answer.text.startsWith(word), `${name}: ${answer.text}`)
    t.notRegex(answer.text, /\n/)
  }
  t.is((await deployments(app.id)).length, 0)
  const kept = await deliveries(ana, app.id)
  t.deepEqual(kept.map((d: { verdict: string }) => d.verdict).sort(), [
    'ignored',
    'ignored',
    'ignored',
    'refused',
    'refused',
  ])
  t.is((await api().as(undefined).get(hook)).body.code, 'ROUTE_NOT_FOUND')
  t.is((await api().as(undefined).request('PUT', hook)).status, 404)
})

test('over 25 MB is 413, by its declared length or while it arrives', async t => {
  const { hook } = await made()
  const large = 25 * 1024 * 1024 + 1
  const send = (headers: Record<string, string | number>, body?: Buffer) =>
    new Promise<{ status?: number; text: string }>((resolve, reject) => {
      const call = request(`${api().url}${hook}`, { method: 'POST', headers, agent: false }, response => {
        let text = ''
        response.setEncoding('utf8').on('data', piece => {
          text += piece
        })
        response.on('end', () => resolve({ status: response.statusCode, text }))
      })
      call.on('error', reject)
      if (body) call.end(body)
      else call.flushHeaders()
    })
  const type = { 'content-type': 'application/json', 'x-github-event': 'push' }
  const reported = await send({ ...type, 'content-length': large })
  t.deepEqual([reported.status, reported.text.split(' ')[0]], [413, 'refused:'])
  const found = await send({ ...type, 'transfer-encoding': 'chunked' }, Buffer.alloc(large, ' '))
  t.deepEqual([found.status, found.text.split(' ')[0]], [413, 'refused:'])
})

test('removed webhooks and deleted applications answer like unknown ones', async t => {
  const [removed, deleted] = [await made(), await made()]
  const unknown = await deliver(api(), `/v2/git/webhook/${'1'.repeat(64)}`)
  await api()
    .as(removed.ana)
    .post(`/v2/apps/${removed.app.id}/deploy/webhook`, JSON.stringify({ access_token: '@' }))
  const deletion = await deletionUnderWay(api(), deleted)
  for (const { hook } of [removed, deleted]) {
    const answer = await deliver(api(), hook)
    t.deepEqual([answer.status, answer.text], [404, unknown.text])
  }
  t.is((await deletion.fail()).body.code, 'DELETE_ERROR')
  t.regex((await deliver(api(), deleted.hook)).text, /^queued: /, 'it stays, and takes pushes again')
})

test('restart=false is stored with the deployment; branch compares in lower case', async t => {
  const { app, hook } = await made()
  t.is((await deliver(api(), hook, { branch: 'Main', query: '?branch=mAIN&restart=false' })).status, 200)
  t.is((await deployments(app.id))[0].restart, false)
})

test('a push that could not be stored is 503 within 5 s, leaves nothing, and may be sent again', async t => {
  const { ana, app, hook } = await made()
  const sent = { deliveryId: 'again', commit: newCommit() }
  const { db } = api()
  await db.raw(`create function refuse_${app.id}() returns trigger language plpgsql as
    $$ begin if new.app_id = '${app.id}' then raise exception 'disk full' using errcode = '53100'; end if; return new; end $$`)
  await db.raw(
    `create trigger refuse_${app.id} before insert on webhook_deliveries for each row execute function refuse_${app.id}()`,
  )
  const refused = await deliver(api(), hook, sent)
  t.is(refused.status, 503)
  t.regex(refused.text, /^unavailable: /)
  t.truthy(refused.headers.get('retry-after'))
  t.is((await deployments(app.id)).length, 0)
  await db.raw(`drop trigger refuse_${app.id} on webhook_deliveries`)

  const holder = await db.transaction()
  await holder.raw('select 1 from apps where id = ? for update', [app.id])
  const startedAt = performance.now()
  const hung = await deliver(api(), hook, sent)
  t.is(hung.status, 503)
  t.true(performance.now() - startedAt < 5500, `${performance.now() - startedAt} ms`)
  await holder.rollback()
  await sleep(500)
  t.is((await deployments(app.id)).length, 0, 'nothing is stored after the sender was refused')
  t.deepEqual(await deliveries(ana, app.id), [])

  const again = await deliver(api(), hook, sent)
  t.regex(again.text, /^queued: /)
  t.is((await deployments(app.id)).length, 1)
})

test('a connection that is cut while a push is stored leaves all of it or nothing', async t => {
  const { app, hook } = await made()
  const { db } = api()
  const holder = await db.transaction()
  await holder.raw('select 1 from apps where id = ? for update', [app.id])
  const holding = (await holder.raw('select pg_backend_pid() as pid')).rows[0].pid
  const sent = { deliveryId: 'cut', commit: newCommit() }
  const answering = deliver(api(), hook, sent)
  const admin = openDatabase({ url: db.client.config.connection.connectionString, pool: 1 })
  t.teardown(() => admin.destroy())
  await comesTrue(async () => {
    const { rows } = await admin.raw(
      // Together with other pushes it waits for less.
      `select pg_terminate_backend(pid) from pg_stat_activity
        where query like '%store_free_pushes%' and query_start < now() - interval '1 second' and ? = any(pg_blocking_pids(pid))`,
      [holding],
    )
    return rows.length > 0
  })
  t.is((await answering).status, 503)
  await holder.rollback()
  t.is((await deployments(app.id)).length, 0)
  t.regex((await deliver(api(), hook, sent)).text, /^queued: /)
})

test('the token goes only to the origin of the first accepted push', async t => {
  const { app, hook } = await made({ access_token: 'only-for-one' })
  const token = (url: string) => readAccessToken(api().db, testKeys, app.id, url)
  t.is(await token(cloneUrl), null, 'no push yet')
  await deliver(api(), hook, { ref: 'refs/tags/v1', cloneUrl: 'https://thief.example.org/a/b.git' })
  t.is((await deliver(api(), hook)).status, 200)
  t.is((await deliver(api(), hook, { cloneUrl: 'https://thief.example.org/a/b.git' })).status, 200)
  t.is(await token(cloneUrl), 'only-for-one')
  for (const url of [
    'https://thief.example.org/a/b.git',
    'http://git.example.org/a/b.git',
    'https://git.example.org:8443/a',
  ])
    t.is(await token(url), null, url)
})
