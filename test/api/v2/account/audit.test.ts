import test from 'ava'
import { recordAudit } from '../../../../db/audit.ts'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi()

const entries = async (credential: string, query = '') =>
  (await api().as(credential).get(`/v2/account/audit${query}`)).body.response

test('executed commands are listed, newest first; reads and refusals are not', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const app = await api().makeApp(ana)
  await api().as(ana).get('/v2/users/me')
  await api()
    .as(ana)
    .post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: 'x'.repeat(40) }))
  await api()
    .as(ana)
    .post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: '' }))
  await api().as(ana.session).get('/v2/account/apikey')
  const found = await entries(ana.session)
  t.like(found.entries, [
    { actor: ana.id, action: 'account.apikey', resource: null, result: 'success', operation: null },
    { actor: ana.id, action: 'apps.webhook', resource: app.id, result: 'success', operation: null },
  ])
  t.is(found.entries.length, 2)
  t.false('cursor' in found)
  t.regex(found.entries[0].at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
})

test('a command whose operation failed is listed with its code', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const app = await api().makeApp(ana)
  const code = 'CONTAINER_ALREADY_STOPPED'
  api().lanes.outcome = ({ target_id }) =>
    target_id === app.id ? { state: 'error', code, message: 'in words' } : { state: 'success' }
  const stop = await api().as(ana).post(`/v2/apps/${app.id}/stop`)
  t.is(stop.body.code, code)
  const id = stop.headers.get('x-operation-id')
  t.like((await entries(ana.key)).entries, [{ result: code, operation: id }])
})

test('pages continue each other, and the plan limits how far back they go', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const bob = await api().makeUser()
  const row = (n: number, age: string) =>
    api().db.raw(
      `insert into audit (account_id, actor, action, result, at) values (?, ?, ?, 'success', now() - ?::interval)`,
      [ana.id, bob.id, `act.${n}`, age],
    )
  for (const [n, age] of ['3 days', '47 hours', '1 hour', '1 minute'].entries()) await row(n, age)
  const first = await entries(ana.key, '?limit=2')
  const second = await entries(ana.key, `?limit=2&cursor=${first.cursor}`)
  t.deepEqual(
    [...first.entries, ...second.entries].map(entry => entry.action),
    ['act.3', 'act.2', 'act.1'],
    'two days on this plan',
  )
  t.is(second.cursor, undefined)
  t.is((await entries(bob.key)).entries.length, 4, 'who did it sees it too')
  t.is((await api().as(ana).get('/v2/account/audit?cursor=x')).body.code, 'INVALID_PARAMETERS')
  t.is((await api().as(ana).get('/v2/account/audit?limit=101')).body.code, 'INVALID_PARAMETERS')
})

test('acts of operators on the account are listed, without their names', async t => {
  const ana = await api().makeUser()
  const act = { action: 'users.set-plan', resource: null, result: 'success', operationId: null }
  await recordAudit(api().db, { accountId: ana.id, actor: 'operator:noor', ...act })
  await recordAudit(api().db, { accountId: null, actor: 'operator:noor', ...act, action: 'hosts.drain' })
  t.like((await entries(ana.key)).entries, { length: 1, 0: { actor: 'operator', action: 'users.set-plan' } })
})

test('audit entries cannot be changed', async t => {
  const ana = await api().makeUser()
  await api().as(ana.session).get('/v2/account/apikey')
  await t.throwsAsync(api().db('audit').where({ account_id: ana.id }).update({ result: 'other' }), {
    message: /only added to/,
  })
})

test('keys and webhooks change with their entry, or not at all', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const hook = `/v2/apps/${app.id}/deploy/webhook`
  const { db } = api()
  await db.raw(`
    create function no_entry() returns trigger language plpgsql as $$ begin raise exception 'no space'; end $$;
    create trigger no_entry before insert on audit for each row when (new.account_id = '${ana.id}') execute function no_entry()`)
  t.is((await api().as(ana.session).get('/v2/account/apikey')).status, 500)
  t.is((await api().as(ana.key).post(hook, '{"access_token":"token"}')).status, 500)
  t.deepEqual(await db('git_webhooks').where({ app_id: app.id }), [])
  await db.raw('drop trigger no_entry on audit')
  t.is((await api().as(ana.key).post(hook, '{"access_token":"token"}')).status, 200, 'the key is still valid')
  const { apiKey } = (await api().as(ana.session).get('/v2/account/apikey')).body.response
  t.deepEqual(
    (await entries(apiKey)).entries.map(({ action }: { action: string }) => action),
    ['account.apikey', 'apps.webhook'],
  )
})

test('another account sees none of it', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  await api().as(ana.session).get('/v2/account/apikey')
  t.deepEqual((await entries(bob.key)).entries, [])
})

test('a key that is limited to an application sees only its entries', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  for (const { id } of [one, two]) t.is((await api().as(ana).post(`/v2/apps/${id}/stop`)).status, 200)
  await api().as(ana.session).get('/v2/account/apikey')
  const { key } = await api().makeKey(ana, { scopes: ['account:read'], resources: [one.id] })
  t.like((await entries(key)).entries, { length: 1, 0: { action: 'apps.stop', resource: one.id } })
  t.is((await entries(ana.session)).entries.length, 3)
})
