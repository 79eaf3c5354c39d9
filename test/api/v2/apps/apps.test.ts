import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi()

test('info shows an application to its owner, by key and by session, with and without Bearer', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { displayName: 'Shop', description: 'sells', subdomain: `shop-${ana.id}` })
  const expected = {
    status: 'success',
    response: {
      id: app.id,
      name: 'Shop',
      desc: 'sells',
      owner: ana.id,
      cluster: 'h1',
      ram: 256,
      language: 'javascript',
      domain: `shop-${ana.id}.apps.localhost`,
      custom: null,
      created_at: app.created_at.toISOString(),
      variables: { version: 0, current: true },
      health: null,
    },
  }
  for (const credential of [ana.key, `Bearer ${ana.key}`, `bearer ${ana.session}`, ana.session]) {
    const answer = await api().as(credential).get(`/v2/apps/${app.id}`)
    t.is(answer.status, 200)
    t.deepEqual(answer.body, expected)
    t.regex(answer.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/)
  }
})

test('missing, foreign and malformed ids are byte-identical', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const app = await api().makeApp(bob)
  const workspace = `${'a'.repeat(12)}4${'a'.repeat(3)}8${'a'.repeat(15)}`
  const texts = new Set<string>()
  for (const id of [
    app.id,
    'f'.repeat(24),
    'f'.repeat(32),
    'XYZ',
    `${app.id}-${workspace}`,
    `${app.id}-`,
    '%00',

    'a'.repeat(300),
  ]) {
    const answer = await api().as(ana).get(`/v2/apps/${id}`)
    t.is(answer.status, 404, id)
    texts.add(answer.text)
  }
  t.deepEqual([...texts], ['{"status":"error","code":"APP_NOT_FOUND","message":"The application does not exist."}'])
})

test('a deletion is answered once the application is deleted', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const answer = await api().as(ana).delete(`/v2/apps/${app.id}`)
  t.is(answer.text, '{"status":"success"}')
  t.is((await api().as(ana).get(`/v2/apps/${app.id}`)).status, 404)
  t.is((await api().as(ana).delete(`/v2/apps/${app.id}`)).body.code, 'APP_NOT_FOUND')
})

test('a deletion that failed at the host is DELETE_ERROR, with 404', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().lanes.outcome = operation =>
    operation.kind === 'delete' && operation.target_id === app.id
      ? { state: 'error', code: 'ACTION_FAILED' }
      : { state: 'success' }
  const answer = await api().as(ana).delete(`/v2/apps/${app.id}`)
  t.is(answer.status, 404)
  t.is(answer.body.code, 'DELETE_ERROR')
})
