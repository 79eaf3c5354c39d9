import test from 'ava'
import type { Rule } from '../../../../policy/objects/blob-rules.ts'
import { blobSettings } from '../../../../policy/objects/blob-settings.ts'
import { copyTarget } from '../../../../policy/objects/object-copy.ts'
import { isKeyWithin, prefixLimits } from '../../../../policy/objects/prefix-limits.ts'
import { type Uploader, uploadTerms } from '../../../../policy/objects/uploads/upload-terms.ts'
import { uploadedFile } from '../../../../policy/objects/uploads/uploaded-file.ts'

const now = new Date('2030-01-01T00:00:00.900Z')
const ownerId = '1'.repeat(18)
const ana: Uploader = { planName: 'enterprise-24', prefixes: null, rules: [] }
const rule = (prefix: string, more: Partial<Rule>): Rule => ({
  ...{ prefix, private: null, expire: null, max_size: null, extensions: null, cache_control: null },
  ...{ delete_after_days: null, created_at: now, active_from: null, ...more },
})

test('an upload without options is public, never expires, and has a random part', t => {
  t.deepEqual(uploadTerms({}, ana, now), {
    bucket: 'public',
    prefix: '',
    name: undefined,
    hashed: true,
    expiresAt: null,
    overwrite: false,
    cacheControl: null,
    disposition: null,
    metadata: {},
    maxBytes: Infinity,
    extensions: [],
  })
})

test('a pin overrides the request, which overrides the rule; sizes and types must satisfy all of them', t => {
  const rules = [rule('a/', { private: true, expire: '30', max_size: 100, extensions: ['png', 'jpg'] })]
  const pins = { name: 'pinned', prefix: 'a', max_size: 50, allowed_extensions: ['png'] }
  const terms = uploadTerms({ name: 'asked', prefix: 'b', private: false, expire: '1h' }, { ...ana, rules, pins }, now)
  t.like(terms, { bucket: 'private', prefix: 'a', name: 'pinned', hashed: false, maxBytes: 50 })
  t.deepEqual(terms.expiresAt, new Date('2030-01-01T01:00:00Z'))
  t.deepEqual(terms.extensions, [['png', 'jpg'], ['png']])
  t.like(uploadTerms({ prefix: 'a', private: false }, { ...ana, rules }, now), { bucket: 'public' })
})

test('fields from a rule are not checked against the plan again', t => {
  const rules = [rule('a/', { expire: '1h', cache_control: 'no-cache' })]
  const terms = uploadTerms({ prefix: 'a' }, { ...ana, planName: 'hobby-1', rules }, now)
  t.like(terms, { cacheControl: 'no-cache' })
  t.throws(() => uploadTerms({ expire: '1h' }, { ...ana, planName: 'hobby-1' }, now), { message: /Enterprise/ })
})

const fileAs = (fileName: string, type?: string, name?: string) => {
  const { object, ...file } = uploadedFile(uploadTerms({ name, security_hash: false }, ana, now), ownerId, {
    fileName,
    type,
  })
  return { ...file, key: object.key.replace(/_[a-z2-7]{16}/, '_R') }
}

test('a file gives name, type and original name', t => {
  const table: [
    fileName: string,
    type: string | undefined,
    name: string | undefined,
    key: string,
    original: string | null,
  ][] = [
    ['Photo.PNG', undefined, undefined, 'Photo_R.png', 'Photo.PNG'],
    ['a/b\\c.tar.gz', undefined, 'x', 'x.tar.gz', 'c.tar.gz'],
    ['blob', 'image/png', 'x', 'x.png', null],
    ['blob', 'no/such-type', 'x', 'x', null],
    ['README', undefined, undefined, 'README_R', 'README'],
    ['README', 'text/plain', 'notes.md', 'notes.md', 'README'],
    ['.env', undefined, undefined, 'env_R', '.env'],
    ['日本.txt', undefined, undefined, 'file_R.txt', '日本.txt'],
    ['a\r\nb.txt', undefined, 'x', 'x.txt', 'ab.txt'],
    ['bill\u202egpj.txt', undefined, 'x', 'x.txt', 'billgpj.txt'],
  ]
  for (const [fileName, type, name, key, originalName] of table)
    t.like(fileAs(fileName, type, name), { key, originalName }, fileName)
})

test('a list of types may contain any two-part type, in any case', t => {
  const stored = (fileName: string, list: string[], name?: string, type?: string) => {
    const rules = [rule('a/', { extensions: list })]
    const terms = uploadTerms({ prefix: 'a', name, security_hash: false }, { ...ana, rules }, now)
    try {
      const { object, contentType } = uploadedFile(terms, ownerId, { fileName, type })
      return `${object.key.replace(/_[a-z2-7]{16}/, '')} ${contentType}`
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  const refused = 'FILE_TYPE_NOT_ALLOWED'
  const table: [Parameters<typeof stored>, string][] = [
    [['x.tar.gz', ['tar.gz']], 'a/x.tar.gz application/gzip'],
    [['X.TAR.GZ', ['tar.gz']], 'a/X.tar.gz application/gzip'],
    [['x.gz', ['tar.gz']], refused],
    [['x.tar.gz', ['gz']], 'a/x.tar.gz application/gzip'],
    [['app.min.js', ['min.js']], 'a/app.min.js text/javascript'],
    [['app.js', ['min.js']], refused],
    [['APP.D.TS', ['d.ts', 'js']], 'a/APP.D.ts video/mp2t'],
    [['pictures.tar.zip', ['tar.zip']], 'a/pictures.tar.zip application/zip'],
    [['min.js', ['min.js']], refused],
    [['folder/.min.js', ['min.js']], refused],
    [['README', ['user.js'], 'x.user.js'], 'a/x.user.js text/javascript'],
    [['README', ['tar.gz'], 'x.gz'], refused],
    [['blob', ['min.js'], 'x.min', 'text/javascript'], 'a/x.min.js text/javascript'],
    [['setup.tar.exe', ['tar.exe', 'exe']], 'BLOCKED_FILE_TYPE'],
    [['setup.TAR.EXE', ['tar.exe']], 'BLOCKED_FILE_TYPE'],
  ]
  for (const [given, end] of table) t.is(stored(...given), end, JSON.stringify(given))
})

test('prefixes of a limited key match whole folders', t => {
  t.deepEqual(prefixLimits(['a/b', 'c/', 'c']), ['a/b/', 'c/'])
  for (const wrong of [[''], ['/a'], ['a', '../b']]) t.is(prefixLimits(wrong), undefined, wrong.join())
  t.true(isKeyWithin(['a/b/'], 'a/b/c.txt'))
  for (const key of ['a/bc.txt', 'a/b', 'a/c.txt', '']) t.false(isKeyWithin(['a/b/'], key), key)
  t.true(isKeyWithin(null, 'anything'))
})

test('a copy inherits what is not given, and its source is never its destination', t => {
  const source = { ownerId, bucket: 'public', key: 'a/b-ex1893456000.png' } as const
  const ends = new Date(1893456000_000)
  const target = copyTarget(source, ends, { name: 'c' }, now)
  t.deepEqual(target, {
    name: { ownerId, bucket: 'public', key: 'c-ex1893456000.png' },
    expiresAt: ends,
    contentType: undefined,
  })
  t.throws(() => copyTarget(source, ends, { name: 'b', prefix: 'a' }, now), { message: /same as the source/ })
  t.is(copyTarget(source, ends, { name: 'b', prefix: 'a', expire: null }, now).name.key, 'a/b.png')
})

test('settings of blob storage are refused with the allowed values', t => {
  t.like(blobSettings({}), {
    concurrentUploads: 16,
    minBytes: 0,
    chunked: { maxOpen: 8, maxParts: 205, maxBytes: 10 * 1024 ** 3 },
  })
  for (const [name, value] of ['CHUNKED_MAX_OPEN=33', 'CHUNKED_MAX_PARTS=2049', 'BLOB_CONCURRENT_UPLOADS=0'].map(s =>
    s.split('='),
  ))
    t.throws(() => blobSettings({ [name as string]: value }), {
      message: new RegExp(`${name} .* must be a whole number`),
    })
})
