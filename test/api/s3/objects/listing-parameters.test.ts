import { ListObjectsV2Command, type ListObjectsV2CommandInput } from '@aws-sdk/client-s3'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { put } from '../../../kit/objects/objects.ts'
import { elementsOf, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { elementOf, uriEncoded } from '../../../kit/s3/wire.ts'

const api = testApi()
const Bucket = 'private'

/** An account with objects of these keys. */
async function withKeys(keys: readonly string[]) {
  const ana = await s3Account(api())
  for (const key of keys) await put(api().db, { ownerId: ana.user.id, bucket: Bucket, key }, key)
  return ana
}

test('a continuation token is opaque, and valid for its own listing and account only', async t => {
  const ana = await withKeys(['a', 'b', 'c'])
  const ben = await withKeys(['a', 'b', 'c'])
  const list = (who: S3Account, query: string, bucket = 'private') =>
    who.wire.send('GET', `/${bucket}?list-type=2&max-keys=1&${query}`)
  const token = elementOf(await list(ana, ''), 'NextContinuationToken')!
  const next = await list(ana, `continuation-token=${uriEncoded(token)}`)
  t.deepEqual([elementOf(next, 'Key'), elementOf(next, 'ContinuationToken')], ['b', token])
  t.is(elementOf(await list(ana, `continuation-token=${uriEncoded(token)}&start-after=b`), 'Key'), 'b', 'it wins')
  const altered = token.replace(/.$/, last => (last === 'A' ? 'B' : 'A'))
  const refused = [
    await list(ben, `continuation-token=${uriEncoded(token)}`),
    await list(ana, `continuation-token=${uriEncoded(altered)}`),
    await list(ana, `continuation-token=${uriEncoded(token)}&prefix=a`),
    await list(ana, `continuation-token=${uriEncoded(token)}&delimiter=/`),
    await list(ana, `continuation-token=${uriEncoded(token)}`, 'public'),
    await list(ana, 'continuation-token='),
    await list(ana, `continuation-token=${'x'.repeat(3000)}`),
  ]
  t.deepEqual(
    refused.map(({ code }) => code),
    refused.map(() => 'InvalidArgument'),
  )
})

test('a page has up to 1000 entries, and none with max-keys=0', async t => {
  const ana = await withKeys(['a', 'b', 'c'])
  const list = (query: string) => ana.wire.send('GET', `/private?list-type=2&${query}`)
  for (const [max, shown] of [
    ['1000', '1000'],
    ['1001', '1000'],
    ['2147483647', '1000'],
    ['', '1000'],
    ['2', '2'],
    ['0', '0'],
  ] as const) {
    const answer = await list(`max-keys=${max}`)
    const keyCount = Math.min(3, Number(shown))
    t.deepEqual(
      ['MaxKeys', 'KeyCount', 'IsTruncated'].map(name => elementOf(answer, name)),
      [shown, String(keyCount), String(keyCount === 2)],
      max,
    )
  }
  for (const bad of [
    'max-keys=-1',
    'max-keys=abc',
    'max-keys=1.5',
    'encoding-type=hex',
    'prefix=%00',
    'start-after=%00',
  ])
    t.is((await list(bad)).code, 'InvalidArgument', bad)
  t.is((await ana.wire.send('GET', '/private?list-type=3')).code, 'InvalidArgument')
})

test('control characters are encoded on request, and an empty prefix remains an element', async t => {
  const ana = await withKeys(['x\u0001/\ny', '+ %'])
  const { text } = await ana.wire.send('GET', '/private?list-type=2&encoding-type=url&start-after=%20&delimiter=%01')
  t.deepEqual(elementsOf(text, 'Key'), ['%2B%20%25'])
  t.deepEqual(elementsOf(text, 'Delimiter'), ['%01'])
  t.deepEqual(elementsOf(text, 'StartAfter'), ['%20'])
  t.deepEqual(elementsOf(text, 'Prefix'), ['', 'x%01'])
  const plain = await ana.wire.send('GET', '/private')
  t.true(plain.text.includes('<Prefix></Prefix><') && plain.text.includes('<Marker></Marker>'))
  t.deepEqual(elementsOf(plain.text, 'Key'), ['+ %', 'x\ufffd/&#10;y'], 'XML cannot carry the first one')
})

test('ListObjectsV2 returns owners on request, and ListObjects always', async t => {
  const ana = await withKeys(['a'])
  const list = async (more: Partial<ListObjectsV2CommandInput>) =>
    (await ana.send(new ListObjectsV2Command({ Bucket, ...more }))).Contents?.[0]?.Owner?.ID
  t.is(await list({}), undefined)
  t.is(await list({ FetchOwner: true }), ana.user.id)
  t.is(elementOf(await ana.wire.send('GET', '/private'), 'ID'), ana.user.id)
  const version = await ana.wire.send('GET', '/private?versions')
  t.deepEqual(
    ['VersionId', 'IsLatest', 'ID'].map(name => elementOf(version, name)),
    ['null', 'true', ana.user.id],
  )
})
