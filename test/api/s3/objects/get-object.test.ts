import { randomBytes } from 'node:crypto'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'
import { elementOf, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

async function withObject(headers: Record<string, string> = {}, body = '0123456789') {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const { headers: answered } = await wire.send('PUT', '/private/k', { body, headers })
  const row = await api().db('objects').where({ owner_id: ana.id }).first()
  return { ana, wire, etag: answered.etag!, row }
}

test('a range is limited to the object; malformed and multiple ranges return the whole', async t => {
  const { wire } = await withObject()
  for (const [range, text, contentRange] of [
    ['bytes=2-', '23456789', 'bytes 2-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
    ['bytes=-30', '0123456789', 'bytes 0-9/10'],
    ['bytes=0-0', '0', 'bytes 0-0/10'],
    ['bytes=9-9', '9', 'bytes 9-9/10'],
    ['bytes=3-99', '3456789', 'bytes 3-9/10'],
    ['BYTES=3-4', '34', 'bytes 3-4/10'],
  ] as const) {
    const headers = { range }
    const got = await wire.send('GET', '/private/k', { headers })
    t.deepEqual([got.status, got.text, got.headers['content-range']], [206, text, contentRange], range)
    const head = await wire.send('HEAD', '/private/k', { headers })
    t.deepEqual(
      [head.status, head.text, head.headers['content-range'], head.headers['content-length']],
      [206, '', contentRange, String(text.length)],
      range,
    )
  }
  for (const range of ['bytes=4-2', 'bytes=', 'bytes=-', 'bytes=a-b', 'lines=0-1', 'bytes=0-1,3-4', 'bytes 0-1', '']) {
    const got = await wire.send('GET', '/private/k', { headers: { range } })
    t.deepEqual([got.status, got.text, got.headers['content-range']], [200, '0123456789', undefined], range)
  }
})

test('a range outside of the object is refused with the size of the object', async t => {
  const { wire } = await withObject()
  for (const range of ['bytes=10-', 'bytes=10-20', 'bytes=-0']) {
    const got = await wire.send('GET', '/private/k', { headers: { range } })
    t.deepEqual([got.status, got.code, got.headers['content-range']], [416, 'InvalidRange', 'bytes */10'], range)
    t.is(elementOf(got, 'ActualObjectSize'), '10')
    t.is(elementOf(got, 'RangeRequested'), range)
    t.like(await wire.send('HEAD', '/private/k', { headers: { range } }), { status: 416, text: '' })
  }
  await wire.send('PUT', '/private/empty')
  t.is((await wire.send('GET', '/private/empty', { headers: { range: 'bytes=0-' } })).status, 416)
  t.is((await wire.send('GET', '/private/empty')).status, 200)
})

test('a part is read by its number; an object in one piece has one part', async t => {
  const { ana, wire } = await withObject()
  const pieces = [randomBytes(30_000), randomBytes(10)]
  await madeObject(api(), ana, { key: 'parts', pieces, etag: `${'a'.repeat(32)}-2` })
  for (const [number, bytes, range] of [
    [1, pieces[0]!, 'bytes 0-29999/30010'],
    [2, pieces[1]!, 'bytes 30000-30009/30010'],
  ] as const) {
    const got = await wire.send('GET', `/private/parts?partNumber=${number}`)
    t.like(got, { status: 206, headers: { 'content-range': range, 'x-amz-mp-parts-count': '2' } })
    t.true(got.bytes.equals(bytes))
    const head = await wire.send('HEAD', `/private/parts?partNumber=${number}`)
    t.like(head.headers, { 'content-length': String(bytes.length), 'x-amz-mp-parts-count': '2' })
  }
  const whole = await wire.send('GET', '/private/k?partNumber=1')
  t.deepEqual([whole.status, whole.text], [206, '0123456789'])
  const beyond = await wire.send('GET', '/private/parts?partNumber=3')
  t.deepEqual([beyond.status, beyond.code], [416, 'InvalidRange'])
  for (const number of ['0', '10001', '-1', 'x', ''])
    t.is((await wire.send('GET', `/private/k?partNumber=${number}`)).code, 'InvalidArgument', number)
  const both = await wire.send('GET', '/private/k?partNumber=1', { headers: { range: 'bytes=0-1' } })
  t.is(both.code, 'InvalidRequest')
})

const hour = 3_600_000
const dated = (at: number) => new Date(at).toUTCString()

test('conditions are evaluated in the order of S3', async t => {
  const { wire, etag, row } = await withObject()
  const at = row.created_at.getTime()
  const [match, noneMatch, since, unmodified] = [
    'if-match',
    'if-none-match',
    'if-modified-since',
    'if-unmodified-since',
  ]
  const bare = etag.replaceAll('"', '')
  const cases: [Record<string, string>, number][] = [
    [{ [match!]: etag }, 200],
    [{ [match!]: bare }, 200],
    [{ [match!]: '*' }, 200],
    [{ [match!]: `"x", ${etag}` }, 200],
    [{ [match!]: '"x"' }, 412],
    [{ [noneMatch!]: etag }, 304],
    [{ [noneMatch!]: bare }, 304],
    [{ [noneMatch!]: '*' }, 304],
    [{ [noneMatch!]: '"x"' }, 200],
    [{ [since!]: dated(at) }, 304],
    [{ [since!]: dated(at - 2000) }, 200],
    [{ [since!]: 'yesterday' }, 200],
    [{ [unmodified!]: dated(at) }, 200],
    [{ [unmodified!]: dated(at - hour) }, 412],
    [{ [match!]: etag, [unmodified!]: dated(at - hour) }, 200],
    [{ [match!]: '"x"', [unmodified!]: dated(at + hour) }, 412],
    [{ [noneMatch!]: '"x"', [since!]: dated(at) }, 200],
    [{ [noneMatch!]: etag, [since!]: dated(at - hour) }, 304],
    [{ [match!]: '"x"', [noneMatch!]: etag }, 412],
    [{ [match!]: etag, [noneMatch!]: etag }, 304],
    [{ [match!]: '"x"', range: 'bytes=99-' }, 412],
    [{ [noneMatch!]: etag, range: 'bytes=99-' }, 304],
    [{ 'if-range': etag, range: 'bytes=0-0' }, 206],
    [{ 'if-range': '"x"', range: 'bytes=0-0' }, 200],
  ]
  for (const [headers, status] of cases)
    for (const method of ['GET', 'HEAD']) {
      const { status: got, text, headers: out, code } = await wire.send(method, '/private/k', { headers })
      t.is(got, status, `${method} ${JSON.stringify(headers)}`)
      if (status === 304) {
        t.is(text, '')
        t.like(out, { etag, 'last-modified': dated(Math.floor(at / 1000) * 1000), 'content-length': undefined })
      }
      if (status === 412) t.is(code, method === 'GET' ? 'PreconditionFailed' : undefined)
    }
})

test('the query of a presigned address overrides response headers', async t => {
  const { wire } = await withObject({ 'content-type': 'text/plain', 'cache-control': 'max-age=60', expires: 'never' })
  const own = {
    'cache-control': 'no-cache',
    'content-disposition': `attachment; filename*=UTF-8''na%C3%AFve.txt`,
    'content-encoding': 'br',
    'content-language': 'fr, en',
    'content-type': 'application/x-own; a=b',
    expires: 'Thu, 01 Jan 2026 00:00:00 GMT',
  }
  const query = Object.entries(own).map(([name, value]) => `response-${name}=${encodeURIComponent(value)}`)
  const address = wire.presigned('GET', `/private/k?${query.join('&')}`)
  t.like((await wire.raw('GET', address, {})).headers, own)
  const forged = await wire.raw('GET', `${wire.presigned('GET', '/private/k')}&response-content-type=text/html`, {})
  t.is(forged.code, 'SignatureDoesNotMatch')
  const split = await wire.send('GET', '/private/k?response-content-type=a%0D%0AX-Own%3A%201')
  t.is(split.code, 'InvalidArgument')
})

test('types that browsers execute are sent in a sandbox, also if the query sets the type', async t => {
  const { wire } = await withObject({ 'content-type': 'text/html; charset=utf-8' }, '<script>')
  const policy = async (target: string) => {
    const { headers } = await wire.send('GET', target)
    return [headers['content-type'], headers['content-security-policy'], headers['x-content-type-options']]
  }
  const sandbox = "sandbox; default-src 'none'"
  t.deepEqual(await policy('/private/k'), ['text/html; charset=utf-8', sandbox, 'nosniff'])
  await wire.send('PUT', '/private/plain', { body: '<script>', headers: { 'content-type': 'text/plain' } })
  t.deepEqual(await policy('/private/plain'), ['text/plain', undefined, 'nosniff'])
  for (const type of ['text/html', 'image/svg%2Bxml', 'text/plain%2C%20text/html', 'multipart/x-mixed-replace'])
    t.deepEqual((await policy(`/private/plain?response-content-type=${type}`)).slice(1), [sandbox, 'nosniff'], type)
})

test('a checksum is returned only on request, and only with the whole object', async t => {
  const { wire } = await withObject({ 'x-amz-checksum-crc32': 'poTHxg==' })
  const shown = async (headers: Record<string, string>, query = '') =>
    (await wire.send('HEAD', `/private/k${query}`, { headers })).headers['x-amz-checksum-crc32']
  t.is(await shown({}), undefined)
  t.is(await shown({ 'x-amz-checksum-mode': 'ENABLED' }), 'poTHxg==')
  t.is(await shown({ 'x-amz-checksum-mode': 'enabled' }), 'poTHxg==')
  t.is(await shown({ 'x-amz-checksum-mode': 'ENABLED', range: 'bytes=0-3' }), undefined)
  t.is(await shown({ 'x-amz-checksum-mode': 'ENABLED', range: 'bytes=0-3,5-6' }), 'poTHxg==')
  const got = await wire.send('GET', '/private/k', { headers: { 'x-amz-checksum-mode': 'ENABLED' } })
  t.is(got.headers['x-amz-checksum-type'], 'FULL_OBJECT')
})

test('an object has one version', async t => {
  const { wire } = await withObject()
  t.is((await wire.send('GET', '/private/k?versionId=null')).status, 200)
  for (const method of ['GET', 'DELETE']) {
    const other = await wire.send(method, '/private/k?versionId=abc')
    t.deepEqual([other.status, other.code], [404, 'NoSuchVersion'], method)
  }
  t.is((await wire.send('HEAD', '/private/k')).status, 200)
})
