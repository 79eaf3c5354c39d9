import test from 'ava'
import { revokeKey } from '../../../../db/accounts/accounts.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { sendFile, sent } from '../../../kit/actors/sent-files.ts'

const api = testApi()

/** Every call on objects, of an object that is there; the last one takes it away. */
const calls: Record<string, (who: string | undefined, object: string) => Promise<Answer>> = {
  upload: who => sendFile(api(), who),
  list: who => api().blobAs(who).get('/v1/objects'),
  info: (who, object) => api().blobAs(who).get(`/v1/objects/info?object=${object}`),
  update: (who, object) => speak(who, 'PATCH', '/v1/objects', { object, disposition: 'inline' }),
  copy: (who, object) =>
    speak(who, 'POST', '/v1/objects/copy', { source: object, destination: { name: 'c' }, overwrite: true }),
  delete: (who, object) => speak(who, 'DELETE', '/v1/objects', { object }),
}
const speak = (who: string | undefined, method: string, path: string, body: object) =>
  api()
    .blobAs(who)
    .request(method, path, { body: JSON.stringify(body) })

const reading = ['list', 'info']

test('each kind of caller may do to objects what its rights allow', async t => {
  const ana = await api().makeUser()
  const key = async (input: Parameters<ReturnType<typeof api>['makeKey']>[1]) => (await api().makeKey(ana, input)).key
  const revoked = await api().makeKey(ana, {})
  await revokeKey(api().db, revoked.id)
  const token = (await speak(ana.key, 'POST', '/v1/upload-tokens', {})).body.response.token
  const every = () => 'ok'
  const denied = () => '401 ACCESS_DENIED'
  const callers: [who: string | undefined, expected: (call: string) => string][] = [
    [ana.key, every],
    [`Bearer ${ana.key}`, every],
    [ana.session, every],
    [await key({ scopes: ['blob:read'] }), call => (reading.includes(call) ? 'ok' : '403 MISSING_SCOPE')],
    [await key({ scopes: ['blob:write'] }), call => (reading.includes(call) ? '403 MISSING_SCOPE' : 'ok')],
    [await key({ scopes: ['apps:read'] }), () => '403 MISSING_SCOPE'],
    [await key({ resources: ['a'.repeat(24)] }), () => '403 RESOURCE_NOT_ALLOWED'],
    [await key({ expiresAt: new Date(Date.now() - 1000) }), denied],
    [revoked.key, denied],
    [undefined, denied],
    [token, call => (call === 'upload' ? 'ok' : '403 UPLOAD_TOKEN_NOT_ALLOWED')],
  ]
  for (const [number, [who, expected]] of callers.entries()) {
    const { id } = await sent(api(), ana, { name: 'a', overwrite: 'true' })
    for (const [name, call] of Object.entries(calls)) {
      const { status, body } = await call(who, id)
      t.is(status === 200 ? 'ok' : `${status} ${body.code}`, expected(name), `${name} by ${number}`)
    }
  }
})

test('a key that is limited to folders may do everything there and nothing elsewhere', async t => {
  const ana = await api().makeUser()
  const { key } = await api().makeKey(ana, { prefixes: ['img/2030/', 'doc/'] })
  const outside = await sent(api(), ana, { name: 'a', prefix: 'img' })
  const inside = await sent(api(), key, { name: 'a', prefix: 'img/2030' })
  await sent(api(), key, { name: 'b', prefix: 'img/2030/deep', private: 'true' })
  await sent(api(), key, { name: 'c', prefix: 'doc' })
  t.like(await sendFile(api(), key), { status: 400, body: { code: 'PREFIX_REQUIRED' } })
  for (const prefix of ['img', 'img/203', 'img/20300', 'other'])
    t.like(await sendFile(api(), key, { prefix }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } }, prefix)
  for (const call of ['info', 'delete'])
    t.like(await calls[call]!(key, outside.id), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } }, call)
  const updated = await calls.update!(key, outside.id)
  t.like(updated.body.response.results[0], { ok: false, code: 'PREFIX_NOT_ALLOWED' })
  const copy = (source: string, destination: object) =>
    speak(key, 'POST', '/v1/objects/copy', { source, destination: { name: 'd', ...destination } })
  t.like(await copy(outside.id, { prefix: 'doc' }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  t.like(await copy(inside.id, {}), { status: 400, body: { code: 'PREFIX_REQUIRED' } })
  t.like(await copy(inside.id, { prefix: 'img' }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  t.is((await copy(inside.id, { prefix: 'doc/x' })).status, 200)
  const several = await speak(key, 'DELETE', '/v1/objects', { objects: [outside.id, inside.id] })
  t.deepEqual(several.body.response, {
    deleted: [inside.id],
    not_found: [],
    failed: [{ id: outside.id, code: 'PREFIX_NOT_ALLOWED' }],
  })
})

test('a listing by a limited key shows all pages of what is below its folders', async t => {
  const ana = await api().makeUser()
  const { key } = await api().makeKey(ana, { prefixes: ['img/2030/', 'doc/', 'doc/deep/', 'empty/'] })
  for (const prefix of ['img', 'img/2030', 'doc', 'doc/deep', 'other', 'img/2030/x'])
    await sent(api(), ana, { name: 'a', prefix, private: `${prefix === 'doc'}` })
  await sent(api(), ana, { name: 'root' })
  const page = (who: TestUser | string, query: Record<string, string>) =>
    api()
      .blobAs(who)
      .get(`/v1/objects?${new URLSearchParams(query)}`)
  const keysOf = ({ body }: Answer) =>
    body.response.objects.map(({ id }: { id: string }) => id.slice(id.indexOf(ana.id) + ana.id.length + 1))
  const visible = ['doc/a.txt', 'doc/deep/a.txt', 'img/2030/a.txt', 'img/2030/x/a.txt']
  t.deepEqual(keysOf(await page(key, {})), visible)
  const seen: string[] = []
  for (let query: Record<string, string> = { limit: '1' }; ; ) {
    const answer = await page(key, query)
    seen.push(...keysOf(answer))
    const { cursor } = answer.body.response
    if (cursor === undefined) break
    query = { limit: '1', cursor }
  }
  t.deepEqual(seen, visible)
  t.deepEqual(keysOf(await page(key, { private: 'true' })), ['doc/a.txt'])
  t.deepEqual(keysOf(await page(key, { prefix: 'doc/deep' })), ['doc/deep/a.txt'])
  t.like(await page(key, { prefix: 'img' }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  const top = await page(key, { delimiter: '/' })
  t.deepEqual([keysOf(top), top.body.response.folders], [[], ['doc/', 'img/']])
  const first = await page(key, { delimiter: '/', limit: '1' })
  t.deepEqual(first.body.response.folders, ['doc/'])
  const second = await page(key, { delimiter: '/', limit: '1', cursor: first.body.response.cursor })
  t.deepEqual([second.body.response.folders, second.body.response.cursor], [['img/'], undefined])
})

const mint = async (who: TestUser | string, pins: object): Promise<string> => {
  const token = await speak(typeof who === 'string' ? who : who.key, 'POST', '/v1/upload-tokens', pins)
  return token.body.response.token
}

test('the pins of an upload token override the request', async t => {
  const ana = await api().makeUser()
  const pins = { name: 'avatar', prefix: 'p', private: true, expire: '30', metadata: { by: 'ana' }, max_uses: 10 }
  const token = await mint(ana, { ...pins, max_size: 5, allowed_extensions: ['png'] })
  const asked = { name: 'x', prefix: 'q', private: 'false', expire: '7', metadata: '{}', overwrite: 'true' }
  const file = { fileName: 'me.png' }
  const said = await sent(api(), token, asked, file)
  t.regex(said.id, new RegExp(`^prv/${ana.id}/p/avatar-ex\\d+\\.png$`))
  t.true(new Date(said.expires_at as string).getTime() > Date.now() + 29 * 86_400_000)
  t.like(await sendFile(api(), token, {}, { ...file, bytes: 'longer' }), {
    status: 413,
    body: { code: 'FILE_TOO_LARGE' },
  })
  t.like(await sendFile(api(), token, {}), { status: 400, body: { code: 'FILE_TYPE_NOT_ALLOWED' } })
  const free = await sent(api(), await mint(ana, {}), { name: 'mine', private: 'true' })
  t.regex(
    free.id,
    new RegExp(`^pub/${ana.id}/mine_[a-z2-7]{16}\\.txt$`),
    'no name of the account is taken, and nothing is hidden',
  )
})

test('a token works as often as it allows; refused uploads and repeated answers take no use', async t => {
  const ana = await api().makeUser()
  const token = await mint(ana, { max_uses: 2 })
  const headers = { 'idempotency-key': 'once' }
  t.is((await sendFile(api(), token, { checksum_sha256: '0'.repeat(64) })).status, 400)
  t.is((await sendFile(api(), token, {}, { field: 'other' })).status, 400)
  const first = await sendFile(api(), token, {}, { headers })
  t.is(first.status, 200, first.text)
  t.is((await sendFile(api(), token)).status, 200)
  t.like(await sendFile(api(), token), { status: 403, body: { code: 'UPLOAD_TOKEN_USED' } })
  t.is((await sendFile(api(), token, {}, { headers })).text, first.text)
  const many = await mint(ana, { max_uses: 3 })
  const racing = await Promise.all(Array.from({ length: 10 }, () => sendFile(api(), many)))
  t.is(racing.filter(({ status }) => status === 200).length, 3)
  const limited = await mint((await api().makeKey(ana, { prefixes: ['a/'] })).key, { prefix: 'a/b', max_uses: 5 })
  t.regex((await sent(api(), limited, { prefix: 'c' })).id, /\/a\/b\//)
})

test('pages of any origin may upload, and nothing else', async t => {
  const ana = await api().makeUser()
  const origin = { origin: 'https://shop.example' }
  const ask = (path: string, method: string) =>
    api()
      .blobAs(undefined)
      .request('OPTIONS', path, { headers: { ...origin, 'access-control-request-method': method } })
  const methods = async (path: string) => (await ask(path, 'POST')).headers.get('access-control-allow-methods')
  t.is(await methods('/v1/objects?name=a'), 'POST')
  t.is(await methods('/v1/objects/chunked'), 'POST, PUT, PATCH, DELETE')
  const preflight = await ask('/v1/objects', 'POST')
  t.is(preflight.status, 204)
  for (const name of ['content-length', 'content-type', 'transfer-encoding'])
    t.is(preflight.headers.get(name), null, `204 says ${name} of a body that it never has`)
  t.is(preflight.headers.get('access-control-allow-origin'), '*')
  t.true(preflight.headers.get('access-control-allow-headers')?.toLowerCase().includes('authorization'))
  t.is(preflight.headers.get('access-control-allow-credentials'), null)
  for (const path of ['/v1/objects/info', '/v1/objects/copy', '/v1/shares', '/v1/upload-tokens', '/v1/nothing']) {
    const answer = await ask(path, 'GET')
    t.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [404, null], path)
  }
  const uploaded = await sendFile(api(), ana, {}, { headers: origin })
  const refused = await sendFile(api(), undefined, {}, { headers: origin })
  for (const { headers } of [uploaded, refused]) t.is(headers.get('access-control-allow-origin'), '*')
  t.is((await api().blobAs(ana).get('/v1/objects', origin)).headers.get('access-control-allow-origin'), null)
})
