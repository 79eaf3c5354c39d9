import test from 'ava'
import { dispositionOf, objectHeaders, publicHeaders, type Shown } from '../../../policy/objects/object-headers.ts'
import { isOpaque, mayRun } from '../../../policy/objects/object-types.ts'

const shown = (fields: Partial<Shown> = {}): Shown => ({
  key: 'a/photo.png',
  content_type: 'image/png',
  cache_control: null,
  content_disposition: null,
  original_name: null,
  s3: null,
  ...fields,
})
const sandbox = "sandbox; default-src 'none'"

test('types that run, and types that browsers might take for others, are known', t => {
  for (const type of ['text/html', 'TEXT/HTML ;a=b', 'image/svg+xml', 'application/xml', 'text/xsl', 'x/y+xml;a=b']) {
    t.true(mayRun(type), type)
    t.false(isOpaque(type), type)
  }
  for (const type of [
    '',
    'html',
    'text/',
    '/html',
    '*/*',
    'text/*',
    'text/html,',
    'text/plain, text/html',
    'text/plain; charset=utf-8, text/html',
    'text/plain; a="b, text/html"',
    'text/plain; a',
    'text/plain; a="b',
    'text/plain a',
    'multipart/x-mixed-replace; boundary=a',
    'Message/RFC822',
    'unknown/unknown',
    'application/unknown',
    'text/ünknown',
    `text/plain${'; '.repeat(8000)}`,
  ])
    t.true(mayRun(type) && isOpaque(type), type)
  for (const type of [
    'image/png',
    'text/plain;charset=utf-8',
    'text/plain; a="b c"; d=e ;',
    'application/vnd.ms-excel',
  ])
    t.false(mayRun(type) || isOpaque(type), type)
})

test('a stored disposition means a display only where it says so', t => {
  for (const [stored, meaning] of [
    [null, null],
    ['', null],
    ['inline', 'inline'],
    ['INLINE ; filename="a"', 'inline'],
    ['attachment', 'attachment'],
    ['inlined', 'attachment'],
    ['filename="inline"', 'attachment'],
    ['form-data; name="a"', 'attachment'],
  ] as const)
    t.is(dispositionOf(stored), meaning, String(stored))
})

test('a whole disposition stays as it is, unless a link says something else', t => {
  const whole = 'attachment; filename="☃.pdf"'
  const bytes = Buffer.from(whole).toString('latin1')
  const of = (content_disposition: string | null, look = {}) =>
    objectHeaders(shown({ content_disposition }), look)['Content-Disposition']
  t.is(of(null), undefined)
  t.is(of(whole), bytes)
  t.is(of(whole, { disposition: 'attachment' }), bytes)
  t.is(of(whole, { disposition: 'inline' }), 'inline; filename="photo.png"')
  t.is(of(whole, { filename: 'b.png' }), 'attachment; filename="b.png"')
  t.is(of('attachment'), 'attachment; filename="photo.png"')
  t.is(of('own; filename="x"'), 'attachment; filename="photo.png"')
})

test('types that run are downloaded or shown in a sandbox; an unknown type is never named', t => {
  const of = (content_type: string, content_disposition: string | null = null) => {
    const headers = objectHeaders(shown({ content_type, content_disposition }))
    return [headers['Content-Type'], headers['Content-Disposition'], headers['Content-Security-Policy']]
  }
  const saved = ['application/octet-stream', 'attachment; filename="photo.png"', sandbox]
  t.deepEqual(of('text/html'), saved)
  t.deepEqual(of('text/html', 'own'), saved)
  t.deepEqual(of('text/html', 'attachment; filename="a.html"').with(1, ''), saved.with(1, ''))
  t.deepEqual(of('text/html', 'inline; filename="a"'), ['text/html', 'inline; filename="a"', sandbox])
  t.deepEqual(of('text/plain, text/html'), saved)
  t.deepEqual(of('text/plain, text/html', 'inline'), saved.with(1, 'inline; filename="photo.png"'))
  t.deepEqual(of('image/png'), ['image/png', undefined, undefined])
})

test('the coding, the language and the end are those that S3 was given', t => {
  const object = shown({
    s3: { contentEncoding: 'gzip', contentLanguage: 'dé', expires: 'Wed, 21 Oct 2026 07:28:00 GMT' },
  })
  t.like(objectHeaders(object), {
    'Content-Encoding': 'gzip',
    'Content-Language': Buffer.from('dé').toString('latin1'),
  })
  t.is(publicHeaders(object).Expires, 'Wed, 21 Oct 2026 07:28:00 GMT')
  t.false('Expires' in objectHeaders(object), 'links are not cached')
  t.false('Content-Encoding' in objectHeaders(shown()))
})

test('caches get the directives of the object, and CDNs never more', t => {
  for (const [stored, control, cdn] of [
    [null, undefined, 'max-age=60'],
    ['immutable', 'public, max-age=31536000, immutable', 'max-age=60'],
    ['no-cache', 'public, no-cache', 'no-cache'],
    ['max-age=600', 'public, max-age=600', 'max-age=60'],
    ['private', 'private', 'no-store'],
    ['max-age=30, Private', 'max-age=30, Private', 'no-store'],
    ['No-Store', 'No-Store', 'no-store'],
    ['max-age=0, no-cache', 'max-age=0, no-cache', 'no-cache'],
    ['max-age=600, s-maxage=5', 'max-age=600, s-maxage=5', 'max-age=5'],
    ['max-age="9"', 'max-age="9"', 'max-age=9'],
    ['anything', 'anything', 'max-age=60'],
  ] as const) {
    const headers = publicHeaders(shown({ cache_control: stored }))
    t.deepEqual([headers['Cache-Control'], headers['CDN-Cache-Control']], [control, cdn], String(stored))
  }
})
