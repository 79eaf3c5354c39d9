import { randomBytes } from 'node:crypto'
import test from 'ava'
import { changeObject, moveObject } from '../../../db/objects/object-changes.ts'
import { removeObject } from '../../../db/objects/objects.ts'
import { objectName } from '../../../policy/objects/object-names.ts'
import { openApiFor, type TestUser, testApi } from '../../kit/actors/api.ts'
import { comingAgain, tally } from '../../kit/actors/coming-again.ts'
import { fetchHalfRead } from '../../kit/actors/half-read.ts'
import { here, type MadeObject, madeObject } from '../../kit/objects/stored-objects.ts'

// Before the first one, whose database goes after it.
const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('stop the second process', async () => {
  for (const step of undo.reverse()) await step()
})
const api = testApi()
const fetch = fetchHalfRead()

async function shared(who: TestUser, { id }: MadeObject, asked: object = {}) {
  const answer = await api()
    .blobAs(who)
    .post('/v1/shares', JSON.stringify({ object: id, ...asked }))
  if (answer.status !== 201) throw new Error(answer.text)
  return here(api(), answer.body.response.url)
}

const visit = (url: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  fetch(url, { redirect: 'manual', headers, ...init })

const enter = (url: string, password: string) =>
  visit(url, {}, { method: 'POST', body: new URLSearchParams({ password }) })

/** The share's cookie, as a browser sends it back. */
const cookieOf = (answer: Response) => ({ cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '' })

const remaining = async (who: TestUser) =>
  (await api().blobAs(who).get('/v1/shares')).body.response.shares.map(
    (share: { remaining_downloads: number | null }) => share.remaining_downloads,
  )

test('a share of a private file downloads it', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { originalName: 'My report.pdf', contentType: 'application/pdf' })
  const answer = await visit(await shared(ana, made))
  t.deepEqual([answer.status, Buffer.from(await answer.arrayBuffer())], [200, made.bytes])
  t.is(answer.headers.get('content-disposition'), 'attachment; filename="My report.pdf"')
  t.is(answer.headers.get('cache-control'), 'private, no-store')
  t.is(answer.headers.get('content-type'), 'application/pdf')
  t.is(answer.headers.get('set-cookie'), null, 'nothing is counted here')
})

test('a share of a public file redirects to its address and restricts nothing', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bucket: 'public' })
  const url = await shared(ana, made, { password: 'correct horse', max_downloads: 1 })
  for (let n = 0; n < 3; n++) {
    const answer = await visit(url)
    t.is(answer.status, 302)
    t.is(answer.headers.get('location'), `${api().services.config.urls.public}/${made.id}`)
    t.is(answer.headers.get('cache-control'), 'no-store')
  }
  t.deepEqual(await remaining(ana), [1])
})

test('HEAD, conditions and continued downloads are not counted; downloads are', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bytes: randomBytes(100_000) })
  const url = await shared(ana, made, { max_downloads: 3 })
  t.is((await visit(url, {}, { method: 'HEAD' })).status, 200)
  t.is((await visit(url, { 'if-none-match': `"${made.row.etag}"` })).status, 304)
  t.is((await visit(url, { 'if-match': '"x"' })).status, 412)
  t.is((await visit(url, { range: 'bytes=100000-' })).status, 416)
  t.deepEqual(await remaining(ana), [3])
  const started = await visit(url, { range: 'bytes=0-9' })
  t.deepEqual([started.status, await remaining(ana)], [206, [2]])
  t.regex(
    started.headers.get('set-cookie') ?? '',
    /^share=\S+; Max-Age=86400; Path=\/s\/\w{22}; HttpOnly; SameSite=Lax$/,
  )
  const cookie = cookieOf(started)
  const rest = await visit(url, { range: 'bytes=10-', ...cookie })
  t.deepEqual(Buffer.from(await rest.arrayBuffer()), made.bytes.subarray(10))
  t.deepEqual(await remaining(ana), [2])
  t.is((await visit(url, { range: 'bytes=10-' })).status, 206)
  t.deepEqual(await remaining(ana), [1], 'without the cookie it is a download of its own')
  t.is((await visit(url, cookie)).status, 200)
  t.deepEqual(await remaining(ana), [0], 'from the first byte it is a download, cookie or not')
  for (const init of [{}, { method: 'HEAD' }, { method: 'POST' }]) {
    const over = await visit(url, {}, init)
    t.is(over.status, 410)
    t.is(over.headers.get('content-type'), 'text/plain; charset=utf-8')
  }
  t.is((await visit(url, cookie)).status, 410)
  t.is((await visit(url, { range: 'bytes=50-', ...cookie })).status, 206, 'a counted download may be finished')
  const another = await shared(ana, made, { max_downloads: 1 })
  await visit(another)
  t.is((await visit(another, { range: 'bytes=50-', ...cookie })).status, 410, 'with a cookie of its own only')
  const { cookie: value = '' } = cookie
  t.is((await visit(url, { range: 'bytes=50-', cookie: value.replace('share=', 'share=x') })).status, 410)
  await madeObject(api(), ana, { key: made.row.key, overwrite: true })
  t.is((await visit(url, { range: 'bytes=50-', ...cookie })).status, 410, 'and that content only')
})

test('a body that cannot be read costs no download', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bytes: randomBytes(100_000) })
  const url = await shared(ana, made, { max_downloads: 2 })
  await api().store.delete(made.segmentIds[0]!)
  t.is((await visit(url)).status, 500)
  t.deepEqual(await remaining(ana), [2])
})

test('the page asks for the password in the visitor’s language, and names no file', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { key: 'hush/plan.bin', originalName: 'plan.bin' })
  const url = await shared(ana, made, { password: 'correct horse', max_downloads: 1 })
  for (const [language, title] of [
    ['pt-BR', 'Senha necessária'],
    ['en-GB', 'Password required'],
    ['es', 'Se necesita una contraseña'],
    ['zh-CN', '需要密码'],
    ['ja', 'パスワードが必要です'],
    ['fr-CA', 'Mot de passe requis'],
    ['de-AT, en;q=0.5', 'Passwort nötig'],
    ['it', 'Serve una password'],
    ['tlh', 'Password required'],
  ] as const) {
    const page = await visit(url, { 'accept-language': language })
    const text = await page.text()
    t.is(page.status, 200)
    t.true(text.includes(`<h1>${title}</h1>`), language)
    t.notRegex(text, /plan|hush|octet|1000/)
    t.is(page.headers.get('vary'), 'Accept-Language')
    t.regex(page.headers.get('content-security-policy') ?? '', /form-action 'self'; frame-ancestors 'none'/)
    t.is(page.headers.get('cache-control'), 'no-store')
  }
  const head = await visit(url, {}, { method: 'HEAD' })
  t.deepEqual([head.status, head.headers.get('content-type')], [200, 'text/html; charset=utf-8'])
  t.is(head.headers.get('etag'), null)
})

test('the right password opens its share, and no other', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const url = await shared(ana, made, { password: 'crème brûlée', max_downloads: 1 })
  const another = await shared(ana, made, { password: 'crème brûlée' })
  const wrong = await enter(url, 'creme brulee')
  t.is(wrong.status, 403)
  t.regex(await wrong.text(), /The password is wrong\./)
  t.is(wrong.headers.get('set-cookie'), null)
  for (const nothing of ['', 'x'.repeat(5000)]) t.not((await enter(url, nothing)).status, 303)
  t.deepEqual(await remaining(ana), [null, 1])
  const right = await enter(url, 'crème brûlée'.normalize('NFD'))
  t.deepEqual([right.status, right.headers.get('location')], [303, new URL(url).pathname])
  t.deepEqual(await remaining(ana), [null, 1])
  t.is((await visit(another, cookieOf(right))).headers.get('content-type'), 'text/html; charset=utf-8')
  const file = await visit(url, cookieOf(right))
  t.deepEqual(Buffer.from(await file.arrayBuffer()), made.bytes)
  t.is((await visit(url, { range: 'bytes=1-', ...cookieOf(file) })).status, 206)
  t.is((await visit(url, cookieOf(right))).status, 410)
})

test('a share ends with its object’s name, before anything is asked or spent', async t => {
  const ana = await api().makeUser()
  const nameOf = (made: MadeObject) => objectName(made.id)!
  const deaths: [string, (made: MadeObject, url: string) => Promise<unknown>][] = [
    ['removed', made => api().db.transaction(trx => removeObject(trx, nameOf(made)))],
    [
      'moved',
      made => api().db.transaction(trx => moveObject(trx, nameOf(made), { ...nameOf(made), key: `${made.row.key}2` })),
    ],
    [
      'made public',
      made => api().db.transaction(trx => moveObject(trx, nameOf(made), { ...nameOf(made), bucket: 'public' })),
    ],
    [
      'recreated',
      async made => {
        await api().db.transaction(trx => removeObject(trx, nameOf(made)))
        await madeObject(api(), ana, { key: made.row.key })
      },
    ],
    [
      'expired itself',
      made => api().db.transaction(trx => changeObject(trx, nameOf(made), { expiresAt: new Date(0) })),
    ],
    [
      'share over',
      (_, url) =>
        api()
          .db('shares')
          .where({ id: url.slice(-22) })
          .update({ expires_at: new Date(0) }),
    ],
    [
      'share revoked',
      (_, url) =>
        api()
          .blobAs(ana)
          .request('DELETE', '/v1/shares', { body: JSON.stringify({ id: url.slice(-22) }) }),
    ],
  ]
  for (const [name, die] of deaths)
    for (const password of [undefined, 'correct horse']) {
      const made = await madeObject(api(), ana)
      const url = await shared(ana, made, { password, max_downloads: 5 })
      t.is((await visit(url, {}, { method: 'HEAD' })).status, 200, name)
      await die(made, url)
      for (const answer of [await visit(url), await enter(url, 'correct horse')])
        t.deepEqual([answer.status, await answer.text()], [404, 'Not found\n'], name)
      t.deepEqual(await remaining(ana), [])
      t.is(
        (
          await api()
            .db('shares')
            .where({ id: url.slice(-22) })
            .first()
        ).remaining,
        5,
      )
    }
  for (const path of ['/s/', '/s/x', `/s/${'x'.repeat(22)}`, `/s/${'x'.repeat(22)}/`, '/s'])
    t.is((await visit(api().filesUrl + path)).status, 404, path)
})

test.serial('500 concurrent visits in two processes, and a cap of 5: exactly 5 downloads', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bytes: randomBytes(100_000) })
  const url = await shared(ana, made, { max_downloads: 5 })
  const { db, store } = api()
  const database = { db, url: db.client.config.connection.connectionString }
  const second = await openApiFor(database, { services: () => ({ store }) }, undo)
  const urls = [url, url.replace(api().filesUrl, second.filesUrl)]
  // A crowd may find no connection of Postgres' free in time: a client that is refused has spent nothing, and tries again.
  const whole = async (url: string) => {
    const answer = await visit(url)
    return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
  }
  const seen = await Promise.all(
    Array.from({ length: 500 }, async (_, n) => {
      const { status, bytes } = await comingAgain(() => whole(urls[n % 2]!))
      return status === 200 ? (bytes.equals(made.bytes) ? 'whole' : 'torn') : status
    }),
  )
  t.deepEqual(tally(seen), { 410: 495, whole: 5 })
  t.deepEqual(await remaining(ana), [0])
})
