import test from 'ava'
import { type TestUser, testApi } from '../../kit/actors/api.ts'

const api = testApi()

const save = (who: TestUser | string, rules: unknown) =>
  api()
    .blobAs(who)
    .request('PUT', '/v1/account/settings', { body: JSON.stringify({ rules }) })
const read = async (who: TestUser | string) => (await api().blobAs(who).get('/v1/account/settings')).body.response.rules
const prefixes = (count: number) => Array.from({ length: count }, (_, n) => ({ prefix: `p${n}/` }))

const full = {
  prefix: 'a/b/',
  private: true,
  expire: '30d',
  max_size: 512,
  extensions: ['png', 'tar.gz'],
  cache_control: 'max-age=60',
  delete_after_days: 7,
}

test('saving replaces the list, which shows only the fields that are set', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  t.deepEqual(await read(ana), [])
  const { status, body } = await save(ana, [full, { prefix: 'c/', private: null, created_at: 'ignored' }])
  t.is(status, 200)
  const [first, second] = body.response.rules
  const { created_at, active_from, ...fields } = first
  t.deepEqual(fields, full)
  t.is(Date.parse(active_from) - Date.parse(created_at), 24 * 3600 * 1000)
  t.deepEqual(Object.keys(second).sort(), ['created_at', 'prefix'])
  t.deepEqual(await read(ana), [first, second])
  t.deepEqual((await save(ana, [full])).body.response.rules, [first])
  t.is((await save(ana, [])).status, 200)
  t.deepEqual(await read(ana), [])
})

test('every field has its own code, and the refusal names the rule', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  await save(ana, [full])
  const refused: [object, number, string][] = [
    [{ prefix: 'a' }, 400, 'INVALID_RULE_PREFIX'],
    [{ prefix: '/' }, 400, 'INVALID_RULE_PREFIX'],
    [{ prefix: '../' }, 400, 'INVALID_RULE_PREFIX'],
    [{ prefix: 'a/b/c/d/e/f/g/h/i/' }, 400, 'INVALID_RULE_PREFIX'],
    [{ private: 'true' }, 400, 'INVALID_OBJECT_PRIVATE'],
    [{ expire: '1y' }, 400, 'INVALID_OBJECT_EXPIRE'],
    [{ max_size: 511 }, 400, 'INVALID_RULE_MAX_SIZE'],
    [{ max_size: 10 * 1024 ** 3 + 1 }, 400, 'INVALID_RULE_MAX_SIZE'],
    [{ max_size: 600.5 }, 400, 'INVALID_RULE_MAX_SIZE'],
    [{ extensions: [] }, 400, 'INVALID_RULE_EXTENSIONS'],
    [{ extensions: ['PNG'] }, 400, 'INVALID_RULE_EXTENSIONS'],
    [{ extensions: 'png' }, 400, 'INVALID_RULE_EXTENSIONS'],
    [{ extensions: Array(51).fill('png') }, 400, 'INVALID_RULE_EXTENSIONS'],
    [{ cache_control: 'public' }, 400, 'INVALID_OBJECT_CACHE_CONTROL'],
    [{ delete_after_days: 0 }, 400, 'INVALID_RULE_DELETE_AFTER_DAYS'],
    [{ delete_after_days: 3651 }, 400, 'INVALID_RULE_DELETE_AFTER_DAYS'],
    [{ expire: '6d' }, 403, 'UPGRADE_REQUIRED'],
    [{ cache_control: 'no-cache' }, 403, 'UPGRADE_REQUIRED'],
    [{ delete_after_days: 6 }, 403, 'UPGRADE_REQUIRED'],
  ]
  for (const [fields, status, code] of refused) {
    const rule = { prefix: 'x/', ...fields }
    t.like(
      await save(ana, [{ prefix: 'ok/' }, rule]),
      { status, body: { code, prefix: rule.prefix } },
      JSON.stringify(rule),
    )
  }
  t.like(await save(ana, [{ prefix: 'a/' }, { prefix: 'a/' }]), {
    status: 400,
    body: { code: 'INVALID_RULE_PREFIX', prefix: 'a/' },
  })
  for (const rules of [undefined, 'x', {}, [1], [null], [[]]])
    t.like(await save(ana, rules), { status: 400, body: { code: 'INVALID_RULES' } }, JSON.stringify(rules))
  t.like(await save(ana, [{ private: true }]), { status: 400, body: { code: 'INVALID_RULE_PREFIX' } })
  const torn = await api().blobAs(ana).request('PUT', '/v1/account/settings', { body: '{' })
  t.like(torn, { status: 400, body: { code: 'INVALID_BODY' } })
  t.is((await read(ana)).length, 1)
})

test('options of Enterprise can be saved by Enterprise', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  const rule = { prefix: 'a/', expire: '1h', cache_control: 'no-cache', delete_after_days: 1, max_size: 10 * 1024 ** 3 }
  t.is((await save(ana, [rule])).status, 200)
})

for (const [plan, most] of Object.entries({ 'hobby-1': 5, 'standard-4': 5, 'pro-12': 10, 'enterprise-24': 20 }))
  test(`${plan} has ${most} rules`, async t => {
    const ana = await api().makeUser({ plan })
    t.is((await save(ana, prefixes(most))).status, 200)
    t.like(await save(ana, prefixes(most + 1)), { status: 400, body: { code: 'TOO_MANY_RULES' } })
  })

test('saved rules survive a lower plan, but the next change must fit it', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  await save(ana, prefixes(8))
  const onPlan = (plan: string) => api().db('users').where({ id: ana.id }).update({ plan })
  await onPlan('hobby-1')
  await new Promise(resolve => setTimeout(resolve, 600)) // a credential is believed for half a second
  t.is((await read(ana)).length, 8)
  t.like(await save(ana, prefixes(6)), { status: 400, body: { code: 'TOO_MANY_RULES' } })
  t.is((await read(ana)).length, 8)
  await onPlan('free')
  await new Promise(resolve => setTimeout(resolve, 600))
  t.is((await read(ana)).length, 8)
  t.like(await save(ana, prefixes(1)), { status: 403, body: { code: 'UPGRADE_REQUIRED' } })
  t.is((await save(ana, [])).status, 200)
})

test('only callers with the scope may read or save upload rules, within their prefixes', async t => {
  const ana = await api().makeUser()
  await save(ana, [{ prefix: 'a/' }, { prefix: 'b/' }])
  const reader = (await api().makeKey(ana, { scopes: ['blob:read'] })).key
  const writer = (await api().makeKey(ana, { scopes: ['blob:write'] })).key
  const other = (await api().makeKey(ana, { scopes: ['apps:read'] })).key
  const { key: narrow, id } = await api().makeKey(ana, { scopes: ['blob:read', 'blob:write'] })
  await api()
    .db('api_keys')
    .where({ id })
    .update({ prefixes: ['a/'] })
  t.is((await read(reader)).length, 2)
  t.is((await read(ana.session)).length, 2)
  t.like(await save(reader, []), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.like(await api().blobAs(writer).get('/v1/account/settings'), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.like(await save(other, []), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.deepEqual(
    (await read(narrow)).map((rule: { prefix: string }) => rule.prefix),
    ['a/'],
  )
  t.like(await save(narrow, [{ prefix: 'c/' }]), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED', prefix: 'c/' } })
  t.like(await save(narrow, [{ prefix: 'a/' }]), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  t.is((await save(writer, [{ prefix: 'a/' }])).status, 200)
  t.is((await save(narrow, [{ prefix: 'a/x/' }])).status, 200)
  const { token } = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response
  for (const method of ['GET', 'PUT'])
    t.like(await api().blobAs(token).request(method, '/v1/account/settings'), {
      status: 403,
      body: { code: 'UPLOAD_TOKEN_NOT_ALLOWED' },
    })
  t.is((await api().blobAs(undefined).get('/v1/account/settings')).status, 401)
  t.is((await api().blobAs(undefined).request('PUT', '/v1/account/settings', { body: '{"rules":[]}' })).status, 401)
  t.deepEqual(await read(await api().makeUser()), [])
})

test('eight concurrent saves leave the complete list of one of them', async t => {
  const ana = await api().makeUser()
  const lists = Array.from({ length: 8 }, (_, n) => [{ prefix: `a${n}/` }, { prefix: `b${n}/` }])
  const answers = await Promise.all(lists.map(list => save(ana, list)))
  t.deepEqual([...new Set(answers.map(answer => answer.status))], [200])
  const [a, b] = (await read(ana)).map((rule: { prefix: string }) => rule.prefix)
  t.is(a.slice(1), b.slice(1))
  t.is((await read(ana)).length, 2)
})
