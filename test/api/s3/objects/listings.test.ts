import test from 'ava'
import fc from 'fast-check'
import { testApi } from '../../../kit/actors/api.ts'
import { put } from '../../../kit/objects/objects.ts'
import { elementsOf, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { elementOf, uriEncoded } from '../../../kit/s3/wire.ts'

const api = testApi()

/** An account with objects of these keys. */
async function withKeys(keys: readonly string[]) {
  const ana = await s3Account(api())
  for (const key of keys) await put(api().db, { ownerId: ana.user.id, bucket: 'private', key }, key)
  return ana
}

const decoded = (text: string) => decodeURIComponent(text)
const byBytes = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other))

interface Page {
  entries: string[]
  next: string | undefined
}

/** One page of each kind of listing, with encoded keys: what it has, and what the next one continues with. */
const kinds: Record<string, { list: string; next: string; from: string; entry: string }> = {
  'the first version': { list: '', next: 'NextMarker', from: 'marker', entry: 'Contents' },
  'the second version': {
    list: 'list-type=2',
    next: 'NextContinuationToken',
    from: 'continuation-token',
    entry: 'Contents',
  },
  versions: { list: 'versions', next: 'NextKeyMarker', from: 'key-marker', entry: 'Version' },
}

async function pageOf({ wire }: S3Account, kind: keyof typeof kinds, query: string, from?: string): Promise<Page> {
  const { list, next, from: parameter } = kinds[kind]!
  const at = from === undefined ? '' : `&${parameter}=${uriEncoded(from)}`
  const answer = await wire.send('GET', `/private?${[list, query].filter(Boolean).join('&')}&encoding-type=url${at}`)
  if (answer.status !== 200) throw new Error(answer.text)
  const folders = [...answer.text.matchAll(/<CommonPrefixes><Prefix>([^<]*)</g)].map(([, folder]) => folder!)
  const isTruncated = elementOf(answer, 'IsTruncated') === 'true'
  const found = elementOf(answer, next)
  return {
    entries: [...elementsOf(answer.text, 'Key'), ...folders].map(decoded).sort(byBytes),
    next: isTruncated ? (kind === 'the second version' ? found : decoded(found!)) : undefined,
  }
}

async function pagesOf(ana: S3Account, kind: keyof typeof kinds, query: string): Promise<string[][]> {
  const pages: string[][] = []
  for (let from: string | undefined; pages.length < 200; ) {
    const { entries, next } = await pageOf(ana, kind, query, from)
    pages.push(entries)
    if (next === undefined) return pages
    from = next
  }
  throw new Error('The listing does not end.')
}

/** What S3 would list: keys by their bytes, and folders up to the delimiter. */
function expected(keys: readonly string[], prefix = '', delimiter = ''): string[] {
  const found = keys
    .filter(key => key.startsWith(prefix))
    .map(key => {
      const at = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
      return at === -1 ? key : key.slice(0, at + delimiter.length)
    })
  return [...new Set(found)].sort(byBytes)
}

const keys = [
  ...[
    'a',
    'a/',
    'a/b',
    'a/b/c',
    'a//b',
    'a0',
    'b--c--d',
    'b--c',
    'ä/ö',
    'z/../y',
    'x\u0001y',
    'x\ny',
    ' space',
    '+&<>"',
  ],
  ...['\u{e000}/1', '\u{10000}/1', '\u{ffff}', 'deep/1/2/3', 'deep/1/2/4', 'deep/2'],
]

for (const kind of Object.keys(kinds))
  test(`${kind}: pages of every size add up to the same list, with any prefix and delimiter`, async t => {
    const ana = await withKeys(keys)
    for (const [prefix, delimiter] of [
      ['', ''],
      ['', '/'],
      ['', '--'],
      ['a/', '/'],
      ['deep/', '/'],
      ['deep/1', '/'],
      ['a', 'b/'],
      ['nothing', '/'],
      ['x', '\n'],
    ] as const) {
      const query = `prefix=${uriEncoded(prefix)}&delimiter=${uriEncoded(delimiter)}`
      const whole = expected(keys, prefix, delimiter)
      for (const size of [1, 2, 3, 7, 1000]) {
        const pages = await pagesOf(ana, kind, `${query}&max-keys=${size}`)
        t.deepEqual(pages.flat(), whole, `${prefix} ${delimiter} ${size}`)
        t.true(
          pages.every(page => page.length <= size),
          'folders count towards the page',
        )
      }
    }
  })

test('keys are listed in the order of their bytes', async t => {
  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }).filter(key => !key.includes('\0'))
  const lists = fc.uniqueArray(fc.oneof(text, fc.stringMatching(/^[ab/é🐎\uffee]{1,5}$/u)), {
    minLength: 1,
    maxLength: 12,
  })
  await fc.assert(
    fc.asyncProperty(lists, async own => {
      const ana = await withKeys(own)
      for (const delimiter of ['', '/', 'é'])
        t.deepEqual(
          (await pagesOf(ana, 'the second version', `delimiter=${uriEncoded(delimiter)}&max-keys=4`)).flat(),
          expected(own, '', delimiter),
        )
    }),
    { numRuns: 12 },
  )
})

test('a listing starts after a key, and a folder that is the marker is not repeated', async t => {
  const ana = await withKeys(['a', 'b/1', 'b/2', 'c', 'd/1'])
  const entries = async (kind: keyof typeof kinds, query: string) => (await pageOf(ana, kind, query)).entries
  t.deepEqual(await entries('the second version', 'start-after=b/1'), ['b/2', 'c', 'd/1'])
  t.deepEqual(await entries('the second version', 'start-after=b%2F&delimiter=/'), ['c', 'd/'])
  t.deepEqual(await entries('the second version', 'start-after=zzz'), [])
  t.deepEqual(await entries('the first version', 'marker=b/1'), ['b/2', 'c', 'd/1'])
  t.deepEqual(await entries('the first version', 'marker=b/&delimiter=/'), ['c', 'd/'])
  t.deepEqual(await entries('versions', 'key-marker=c'), ['d/1'])
  t.deepEqual(await entries('the first version', 'marker=bb&prefix=b'), [])
})

test('expired objects, and those of other buckets and accounts, are not listed', async t => {
  const ana = await withKeys(['gone', 'here'])
  await put(api().db, { ownerId: ana.user.id, bucket: 'public', key: 'public' }, 'x')
  await withKeys(['bens'])
  await api().db('objects').where({ owner_id: ana.user.id, key: 'gone' }).update({ expires_at: '2000-01-01' })
  for (const kind of Object.keys(kinds)) t.deepEqual(await pagesOf(ana, kind, 'delimiter=/'), [['here']], kind)
  t.is((await ana.wire.send('GET', '/unknown?list-type=2')).code, 'NoSuchBucket')
})

test('a folder is one entry, whatever it contains', async t => {
  const ana = await withKeys(['a', 'z'])
  await api().db.raw(
    `insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag)
     select ?, 'private', 'folder/' || n, md5(?::text || n), md5(n::text), 0, 'text/plain', 'e' from generate_series(1, 2000) n`,
    [ana.user.id, ana.user.id],
  )
  for (const kind of Object.keys(kinds))
    t.deepEqual(await pagesOf(ana, kind, 'delimiter=/&max-keys=2'), [['a', 'folder/'], ['z']], kind)
  const pages = await pagesOf(ana, 'the second version', '')
  t.deepEqual(
    pages.map(page => page.length),
    [1000, 1000, 2],
  )
})

test('a key that is limited to prefixes lists only what they contain', async t => {
  const ana = await withKeys(['mine/a', 'mine/b/c', 'other/a', 'top'])
  const { key } = await api().makeKey(ana.user, { scopes: ['blob:read'], prefixes: ['mine/'] })
  const limited = await s3Account(api(), { user: ana.user, key })
  for (const kind of Object.keys(kinds)) {
    t.deepEqual((await pagesOf(limited, kind, 'max-keys=1')).flat(), ['mine/a', 'mine/b/c'], kind)
    t.deepEqual((await pagesOf(limited, kind, 'delimiter=/')).flat(), ['mine/'])
    t.deepEqual((await pagesOf(limited, kind, 'delimiter=/&prefix=mine/')).flat(), ['mine/a', 'mine/b/'])
  }
  for (const query of ['prefix=other/', 'prefix=m', 'delimiter=a', 'delimiter=--'])
    t.is((await limited.wire.send('GET', `/private?list-type=2&${query}`)).code, 'AccessDenied', query)
})
