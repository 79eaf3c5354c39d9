import { randomBytes } from 'node:crypto'
import test from 'ava'
import { createKey } from '../../../../db/accounts/accounts.ts'
import { changeObject, moveObject } from '../../../../db/objects/object-changes.ts'
import { removeObject } from '../../../../db/objects/objects.ts'
import { type ObjectName, objectName } from '../../../../policy/objects/object-names.ts'
import { masterKey, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { here, type MadeObject, madeObject } from '../../../kit/objects/stored-objects.ts'

const api = testApi()

const ask = (who: TestUser | string | undefined, query: Record<string, string>) =>
  api()
    .blobAs(who)
    .get(`/v1/objects/download?${new URLSearchParams(query)}`)

/** The address that is given for an object. */
async function linkTo(who: TestUser, { id }: MadeObject, query: Record<string, string> = {}): Promise<string> {
  const answer = await ask(who, { object: id, redirect: 'false', ...query })
  if (answer.status !== 200) throw new Error(answer.text)
  return here(api(), answer.body.response.url)
}

test('a private file gets a link that works for the requested time', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { contentType: 'image/png', bytes: randomBytes(100_000) })
  const startedAt = Date.now()
  const { status, body } = await ask(ana, { object: made.id, redirect: 'false' })
  t.is(status, 200)
  const { url, expires_at, ...rest } = body.response
  t.deepEqual(rest, { private: true, size: 100_000, content_type: 'image/png' })
  t.true(url.startsWith(`${api().services.config.urls.files}/d/`))
  const life = Date.parse(expires_at) - startedAt
  t.true(life > 3_590_000 && life < 3_620_000, `${life}`)
  const answer = await fetch(here(api(), url))
  t.true(Buffer.from(await answer.arrayBuffer()).equals(made.bytes))
  const headers = ['content-type', 'cache-control', 'content-disposition', 'x-content-type-options', 'set-cookie']
  t.deepEqual(
    headers.map(name => answer.headers.get(name)),
    ['image/png', 'private, no-store', null, 'nosniff', null],
  )
  const part = await fetch(here(api(), url), { headers: { range: 'bytes=-10' } })
  t.deepEqual([part.status, Buffer.from(await part.arrayBuffer())], [206, made.bytes.subarray(-10)])
  t.is((await fetch(here(api(), url), { headers: { 'if-none-match': `"${made.row.etag}"` } })).status, 304)
  t.is((await fetch(here(api(), url), { method: 'HEAD' })).headers.get('content-length'), '100000')
  t.is((await fetch(here(api(), url), { method: 'POST' })).status, 404)
})

test('a download redirects unless redirect=false', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const queries: Record<string, string>[] = [{}, { redirect: 'true' }]
  for (const query of queries) {
    const answer = await ask(ana, { object: made.id, ...query })
    t.deepEqual([answer.status, answer.text, answer.headers.get('cache-control')], [302, '', 'no-store'])
    const file = await fetch(here(api(), answer.headers.get('location')!))
    t.deepEqual(Buffer.from(await file.arrayBuffer()), made.bytes)
  }
})

test('a public file has its own address, and a link for another name or disposition', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bucket: 'public', key: 'a b/ü.txt', contentType: 'text/plain' })
  const plain = (await ask(ana, { object: made.id, redirect: 'false' })).body.response
  t.like(plain, { expires_at: null, private: false })
  t.is(plain.url, `${api().services.config.urls.public}/pub/${ana.id}/a%20b/%C3%BC.txt`)
  t.deepEqual(Buffer.from(await (await fetch(here(api(), plain.url))).arrayBuffer()), made.bytes)
  for (const [query, reported] of [
    [{ disposition: 'attachment' }, 'attachment; filename="_.txt"; filename*=UTF-8\'\'%C3%BC.txt'],
    [{ filename: 'x"\r\n/y.txt' }, 'attachment; filename="xy.txt"'],
    [{ filename: 'x.txt', disposition: 'inline' }, 'inline; filename="x.txt"'],
  ] as const) {
    const url = await linkTo(ana, made, query)
    t.regex(url, /\/d\//)
    const answer = await fetch(url)
    t.is(answer.headers.get('content-disposition'), reported)
    t.is(answer.headers.get('cache-control'), 'private, no-store')
  }
})

test('every invalid request is refused with its own code', async t => {
  const ana = await api().makeUser()
  const other = await api().makeUser()
  const made = await madeObject(api(), ana)
  const refused: [Record<string, string>, number, string][] = [
    [{}, 400, 'INVALID_OBJECT'],
    [{ object: '' }, 400, 'INVALID_OBJECT'],
    [{ object: 'prv/x' }, 400, 'INVALID_OBJECT'],
    [{ object: `prv/${ana.id}/none.bin` }, 404, 'OBJECT_NOT_FOUND'],
    ...['59', '86401', '1.5', '-60', '1e3', 'x', ''].map((expires): [Record<string, string>, number, string] => [
      { object: made.id, expires },
      400,
      'INVALID_DOWNLOAD_EXPIRES',
    ]),
    [{ object: made.id, disposition: 'other' }, 400, 'INVALID_OBJECT_DISPOSITION'],
    [{ object: made.id, filename: '"\\/' }, 400, 'INVALID_FILENAME'],
    [{ object: made.id, filename: '' }, 400, 'INVALID_FILENAME'],
    [{ object: made.id, redirect: 'maybe' }, 400, 'INVALID_PARAMETERS'],
  ]
  for (const [query, status, code] of refused)
    t.like(await ask(ana, query), { status, body: { status: 'error', code } }, JSON.stringify(query))
  const [foreign, missing] = await Promise.all([ask(other, { object: made.id }), ask(other, { object: `${made.id}x` })])
  t.deepEqual([foreign.status, foreign.text], [missing.status, missing.text])
  for (const expires of ['60', '86400']) t.is((await ask(ana, { object: made.id, expires })).status, 302)
})

test('only callers with blob:read may request a download, within their prefixes', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { key: 'in/x.bin' })
  const key = async (input: Partial<Parameters<typeof createKey>[2]>) =>
    (await createKey(api().db, masterKey, { userId: ana.id, ...input })).key
  const revoked = await createKey(api().db, masterKey, { userId: ana.id })
  await api().db('api_keys').where({ id: revoked.id }).update({ revoked_at: new Date() })
  const token = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response.token
  const cells: [string | undefined, number, string?][] = [
    [ana.key, 302],
    [ana.session, 302],
    [await key({ scopes: ['blob:read'] }), 302],
    [await key({ prefixes: ['in/'] }), 302],
    [await key({ prefixes: ['out/'] }), 403, 'PREFIX_NOT_ALLOWED'],
    [await key({ scopes: ['blob:write'] }), 403, 'MISSING_SCOPE'],
    [token, 403, 'UPLOAD_TOKEN_NOT_ALLOWED'],
    [revoked.key, 401, 'ACCESS_DENIED'],
    [undefined, 401, 'ACCESS_DENIED'],
  ]
  for (const [who, status, code] of cells) {
    const answer = await ask(who, { object: made.id })
    t.deepEqual([answer.status, answer.body.code], [status, code])
  }
})

test('a link ends when its object is deleted, and a new object of that name does not revive it', async t => {
  const ana = await api().makeUser()
  const nameOf = ({ id }: MadeObject): ObjectName => objectName(id)!
  const done = (work: (trx: Parameters<typeof moveObject>[0]) => Promise<unknown>) => api().db.transaction(work)
  const deaths: [string, (made: MadeObject) => Promise<unknown>][] = [
    ['removed', made => done(trx => removeObject(trx, nameOf(made)))],
    ['moved', made => done(trx => moveObject(trx, nameOf(made), { ...nameOf(made), key: `${made.row.key}2` }))],
    ['made public', made => done(trx => moveObject(trx, nameOf(made), { ...nameOf(made), bucket: 'public' }))],
    [
      'moved there and back',
      async made => {
        const away = { ...nameOf(made), key: `${made.row.key}3` }
        await done(trx => moveObject(trx, nameOf(made), away))
        await done(trx => moveObject(trx, away, nameOf(made)))
      },
    ],
    [
      'removed and recreated',
      async made => {
        await done(trx => removeObject(trx, nameOf(made)))
        await madeObject(api(), ana, { key: made.row.key })
      },
    ],
    ['expired', made => done(trx => changeObject(trx, nameOf(made), { expiresAt: new Date(Date.now() - 1) }))],
  ]
  for (const [name, die] of deaths) {
    const made = await madeObject(api(), ana)
    const url = await linkTo(ana, made)
    t.is((await fetch(url)).status, 200, name)
    await die(made)
    const answer = await fetch(url)
    t.deepEqual([answer.status, await answer.text()], [404, 'Not found\n'], name)
    t.is(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
  }
  const stays = await madeObject(api(), ana, { key: 'stays.bin' })
  const url = await linkTo(ana, stays)
  const replaced = await madeObject(api(), ana, { key: 'stays.bin', overwrite: true })
  t.deepEqual(Buffer.from(await (await fetch(url)).arrayBuffer()), replaced.bytes)
})

test('a link does not outlive its object', async t => {
  const ana = await api().makeUser()
  const expiresAt = new Date(Math.floor(Date.now() / 1000) * 1000 + 600_000)
  const made = await madeObject(api(), ana, { expiresAt })
  const { body } = await ask(ana, { object: made.id, redirect: 'false' })
  t.is(body.response.expires_at, expiresAt.toISOString())
})

test('a manipulated token opens nothing', async t => {
  const ana = await api().makeUser()
  const url = await linkTo(ana, await madeObject(api(), ana))
  const [, said = '', signature = ''] = /\/d\/(.+)\.(.+)$/.exec(url) ?? []
  const fields: unknown[] = JSON.parse(Buffer.from(said, 'base64url').toString())
  for (const [n, other] of [2, 9, `prv/${ana.id}/x`, 'x', 9_999_999_999, 'inline', 'x'].entries()) {
    const changed = Buffer.from(JSON.stringify(fields.with(n, other))).toString('base64url')
    t.is((await fetch(url.replace(said, changed))).status, 404, `${n}`)
  }
  t.is((await fetch(url.replace(signature, signature.slice(1)))).status, 404)
  t.is((await fetch(`${url}/x`)).status, 404)
})
