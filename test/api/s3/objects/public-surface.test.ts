import { gzipSync } from 'node:zlib'
import test from 'ava'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { here } from '../../../kit/objects/stored-objects.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const bytesOf = (text: string) => Buffer.from(text).toString('latin1')

async function written(
  headers: Record<string, string>,
  { bucket = 'public', body = '<script>' as string | Buffer } = {},
) {
  const ana = await api().makeUser()
  const put = await (await wireOf(api(), ana)).send('PUT', `/${bucket}/a/k`, { body, headers })
  if (put.status !== 200) throw new Error(put.text)
  return ana
}

const open = async ({ id }: TestUser, method = 'GET') => {
  const answer = await fetch(`${api().publicUrl}/pub/${id}/a/k`, { method })
  return { status: answer.status, headers: Object.fromEntries(answer.headers), text: await answer.text() }
}

test('the public address sends the headers that S3 was given', async t => {
  const own = {
    'cache-control': 'private, max-age=5',
    'content-disposition': 'attachment; filename="report 1.pdf"',
    'content-encoding': 'gzip',
    'content-language': 'de',
    'content-type': 'application/pdf',
    expires: 'Wed, 21 Oct 2026 07:28:00 GMT',
  }
  const got = await open(await written(own, { body: gzipSync('hello') }))
  t.is(got.status, 200)
  t.like(got.headers, { ...own, 'cdn-cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  t.is(got.text, 'hello', 'a reader decodes it')
  t.is(got.headers['content-security-policy'], undefined)
})

test('cache directives of an object apply to browsers and to caches at an edge', async t => {
  for (const [sent, shown, cdn] of [
    [undefined, undefined, 'max-age=60'],
    ['immutable', 'public, max-age=31536000, immutable', 'max-age=60'],
    ['max-age=600', 'public, max-age=600', 'max-age=60'],
    ['no-cache', 'public, no-cache', 'no-cache'],
    ['max-age=10, must-revalidate', 'max-age=10, must-revalidate', 'max-age=10'],
    ['public, max-age=600, s-maxage=0', 'public, max-age=600, s-maxage=0', 'max-age=0'],
    ['No-Store', 'No-Store', 'no-store'],
    ['Private', 'Private', 'no-store'],
    ['public, NO-CACHE="set-cookie"', 'public, NO-CACHE="set-cookie"', 'no-cache'],
    [bytesOf('own=☃'), bytesOf('own=☃'), 'max-age=60'],
  ] as const) {
    const { headers } = await open(await written(sent === undefined ? {} : { 'cache-control': sent }), 'HEAD')
    t.deepEqual([headers['cache-control'], headers['cdn-cache-control']], [shown, cdn], sent)
  }
})

const sandbox = "sandbox; default-src 'none'"

test('types that browsers execute are sandboxed downloads at their public address', async t => {
  for (const type of [
    'text/html',
    'TEXT/HTML; charset=utf-8',
    'image/svg+xml',
    'application/xhtml+xml',
    'text/xml',
    'text/plain, text/html',
    'text/plain;,text/html',
    'text/html/x',
    'html',
    '*/*',
    'unknown/unknown',
    'application/unknown',
    'multipart/x-mixed-replace; boundary=x',
    'message/rfc822',
    'text/plain; a="x, text/html"',
    bytesOf('text/☃'),
    `text/plain${' '.repeat(4000)}x`,
  ]) {
    const { headers, status } = await open(await written({ 'content-type': type }))
    t.is(status, 200, type)
    t.deepEqual(
      [headers['content-type'], headers['content-disposition'], headers['content-security-policy']],
      ['application/octet-stream', 'attachment; filename="k"', sandbox],
      type,
    )
  }
  const inline = { 'content-disposition': 'inline; filename="x.html"' }
  const { headers } = await open(await written({ ...inline, 'content-type': 'text/html' }))
  t.like(headers, { 'content-type': 'text/html', ...inline, 'content-security-policy': sandbox })
  const mixed = await open(await written({ ...inline, 'content-type': 'multipart/x-mixed-replace; boundary=x' }))
  t.like(mixed.headers, { 'content-type': 'application/octet-stream', 'content-security-policy': sandbox })
})

test('harmless types are sent as they are', async t => {
  for (const type of [
    'text/plain;charset="utf-8"',
    'image/png',
    'binary/octet-stream',
    'application/vnd.a.b-c; d=e; f=g;',
  ]) {
    const { headers } = await open(await written({ 'content-type': type }), 'HEAD')
    t.deepEqual([headers['content-type'], headers['content-disposition']], [type, undefined], type)
  }
})

test('an unknown disposition is sent as attachment', async t => {
  for (const [sent, shown] of [
    ['attachment', 'attachment; filename="k"'],
    ['inline', 'inline; filename="k"'],
    ['form-data; name="x"', 'attachment; filename="k"'],
    ['filename="x.html"', 'attachment; filename="k"'],
    [bytesOf('attachment; filename="☃.txt"'), bytesOf('attachment; filename="☃.txt"')],
  ] as const) {
    const ana = await written({ 'content-disposition': sent, 'content-type': 'text/plain' })
    t.is((await open(ana)).headers['content-disposition'], shown, sent)
  }
})

test('a link sends the requested disposition, else that of the object', async t => {
  const own = { 'content-disposition': 'inline; filename="own.txt"', 'content-encoding': 'identity' }
  const ana = await written({ ...own, 'content-type': 'text/plain' }, { bucket: 'private' })
  const object = `prv/${ana.id}/a/k`
  const dispositionAt = async (query: Record<string, string>) => {
    const { body } = await api()
      .blobAs(ana)
      .get(`/v1/objects/download?${new URLSearchParams({ object, redirect: 'false', ...query })}`)
    const { headers } = await fetch(here(api(), body.response.url))
    return [headers.get('content-disposition'), headers.get('content-encoding'), headers.get('cache-control')]
  }
  const rest = ['identity', 'private, no-store']
  t.deepEqual(await dispositionAt({}), ['inline; filename="own.txt"', ...rest])
  t.deepEqual(await dispositionAt({ disposition: 'attachment' }), ['attachment; filename="k"', ...rest])
  t.deepEqual(await dispositionAt({ disposition: 'inline' }), ['inline; filename="own.txt"', ...rest])
  t.deepEqual(await dispositionAt({ filename: 'new.txt' }), ['attachment; filename="new.txt"', ...rest])
  const { body } = await api().blobAs(ana).post('/v1/shares', JSON.stringify({ object }))
  const shared = await fetch(here(api(), body.response.url))
  t.is(shared.headers.get('content-disposition'), 'inline; filename="own.txt"')
})
