import { randomBytes } from 'node:crypto'
import test from 'ava'
import { removeObject } from '../../../db/objects/objects.ts'
import { testApi } from '../../kit/actors/api.ts'
import { madeObject } from '../../kit/objects/stored-objects.ts'

const api = testApi()
const read = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${api().publicUrl}/${path}`, { method, headers, redirect: 'manual' })

test('a public file comes as it was stored, with everything that a cache needs', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, {
    bucket: 'public',
    key: 'a/b/photo one.png',
    contentType: 'image/png',
    cacheControl: 'immutable',
    bytes: randomBytes(200_000),
  })
  const answer = await read(`pub/${ana.id}/a/b/photo%20one.png?ignored=1`)
  t.is(answer.status, 200)
  t.true(Buffer.from(await answer.arrayBuffer()).equals(made.bytes))
  const header = (name: string) => answer.headers.get(name)
  t.is(header('content-type'), 'image/png')
  t.is(header('content-length'), '200000')
  t.is(header('etag'), `"${made.row.etag}"`)
  t.is(header('last-modified'), made.row.created_at.toUTCString())
  t.is(header('accept-ranges'), 'bytes')
  t.is(header('cache-control'), 'public, max-age=31536000, immutable')
  t.is(header('cdn-cache-control'), 'max-age=60')
  t.is(header('x-content-type-options'), 'nosniff')
  t.is(header('content-disposition'), null)
  t.is(header('set-cookie'), null)
})

test('a legacy file is public at its old address, a private one nowhere', async t => {
  const ana = await api().makeUser()
  const old = await madeObject(api(), ana, { bucket: 'legacy', key: 'old.bin' })
  t.deepEqual(Buffer.from(await (await read(old.id)).arrayBuffer()), old.bytes)
  const secret = await madeObject(api(), ana, { bucket: 'private', key: 'secret.bin' })
  for (const path of [
    secret.id,
    `pub/${ana.id}/secret.bin`,
    `${ana.id}/secret.bin`,
    `pub/${ana.id}/`,
    `pub/${ana.id}/%00`,
    `pub/${ana.id}/%zz`,
    `pub/${ana.id}/%ff`,
    'pub/',
    '',
  ]) {
    const answer = await read(path)
    t.deepEqual([answer.status, await answer.text()], [404, 'Not found\n'], path)
    t.is(answer.headers.get('cache-control'), 'no-store')
    t.is(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
  }
  t.is((await read(old.id, {}, 'POST')).status, 404)
  const health = await read('pub/status')
  t.deepEqual([health.status, await health.text(), health.headers.get('cache-control')], [200, 'OK', 'no-store'])
})

test('readers see an overwrite and a removal immediately', async t => {
  const ana = await api().makeUser()
  const first = await madeObject(api(), ana, { bucket: 'public', key: 'x.bin' })
  t.deepEqual(Buffer.from(await (await read(first.id)).arrayBuffer()), first.bytes)
  const second = await madeObject(api(), ana, { bucket: 'public', key: 'x.bin', overwrite: true })
  const answer = await read(first.id, { 'if-none-match': `"${first.row.etag}"` })
  t.deepEqual(Buffer.from(await answer.arrayBuffer()), second.bytes)
  await api().db.transaction(trx => removeObject(trx, { ownerId: ana.id, bucket: 'public', key: 'x.bin' }))
  t.is((await read(first.id)).status, 404)
  const over = await madeObject(api(), ana, { bucket: 'public', key: 'y.bin', expiresAt: new Date(Date.now() - 1000) })
  t.is((await read(over.id)).status, 404)
})

test('documents that could run scripts are bytes to be saved, or shown in a sandbox where that was requested', async t => {
  const ana = await api().makeUser()
  const shown = async (contentType: string, contentDisposition: string | null, originalName: string | null = null) => {
    const key = `${randomBytes(6).toString('hex')}.bin`
    const made = await madeObject(api(), ana, { bucket: 'public', key, contentType, contentDisposition, originalName })
    const { headers } = await read(made.id, {}, 'HEAD')
    return ['content-type', 'content-disposition', 'content-security-policy'].map(name => headers.get(name))
  }
  const sandbox = "sandbox; default-src 'none'"
  for (const type of ['text/html', 'image/svg+xml', 'text/xml', 'application/xhtml+xml; charset=utf-8']) {
    const [reported, disposition, policy] = await shown(type, null, 'page.html')
    t.deepEqual([reported, policy], ['application/octet-stream', sandbox], type)
    t.is(disposition, 'attachment; filename="page.html"')
    t.deepEqual(await shown(type, 'inline', 'page.html'), [type, 'inline; filename="page.html"', sandbox])
  }
  t.deepEqual(await shown('text/plain', null), ['text/plain', null, null])
  const docx = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'
  t.deepEqual(await shown(docx, null), [docx, null, null])
  t.deepEqual((await shown('image/png', 'attachment', 'naïve "☃"\r\nX: 1.png')).slice(1, 2), [
    `attachment; filename="na_ve _X: 1.png"; filename*=UTF-8''na%C3%AFve%20%E2%98%83X%3A%201.png`,
  ])
})
