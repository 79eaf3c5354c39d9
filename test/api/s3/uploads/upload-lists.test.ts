import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  ListPartsCommand,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { elementsOf, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { opened, sent } from '../../../kit/s3/parts.ts'
import { elementOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const Bucket = 'private'

type Listing = Partial<ListMultipartUploadsCommandInput>

/** Every page of a list, as keys with ids and as folders. */
async function pages({ send }: S3Account, how: Listing): Promise<string[][]> {
  const all: string[][] = []
  for (let at: Listing = {}; all.length < 50; ) {
    const page = await send(new ListMultipartUploadsCommand({ Bucket, ...how, ...at }))
    const entries = (page.Uploads ?? []).map(one => `${one.Key} ${one.UploadId}`)
    all.push([...entries, ...(page.CommonPrefixes ?? []).map(one => one.Prefix!)])
    if (!page.IsTruncated) return all
    at = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
  }
  throw new Error('The list does not end.')
}

async function withUploads() {
  const ana = await s3Account(api())
  const ids: string[] = []
  for (const key of ['a', 'a', 'a', 'b/1', 'b/2', 'b/c/3', 'd', 'ä', '\u{e000}', '\u{10000}'])
    ids.push(`${key} ${await opened(ana, key)}`)
  // By the bytes of the key, then by the id.
  const all = ids.sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  return { ana, all }
}

test('pages of uploads of every size add up to the same list, in the order of bytes', async t => {
  const { ana, all } = await withUploads()
  for (let MaxUploads = 1; MaxUploads <= all.length + 1; MaxUploads++) {
    const found = await pages(ana, { MaxUploads })
    t.deepEqual(found.flat(), all)
    t.true(found.every(page => page.length <= MaxUploads))
  }
  const none = await ana.wire.send('GET', '/private?uploads&max-uploads=0')
  t.deepEqual([elementOf(none, 'IsTruncated'), elementsOf(none.text, 'UploadId')], ['false', []])
})

test('a prefix and a delimiter fold uploads into folders, each of which is one entry', async t => {
  const { ana, all } = await withUploads()
  const folded = [...all.filter(one => one.startsWith('a ')), 'b/', ...all.filter(one => !/^[ab]/.test(one))]
  for (const MaxUploads of [1, 2, 3, 4, 5, 100]) {
    const found = await pages(ana, { MaxUploads, Delimiter: '/' })
    t.deepEqual(found.flat().sort(), [...folded].sort(), String(MaxUploads))
    t.true(found.every(page => page.length <= MaxUploads))
  }
  const below = await pages(ana, { Prefix: 'b/', Delimiter: '/' })
  t.deepEqual(below, [[...all.filter(one => /^b\/\d/.test(one)), 'b/c/']])
  t.deepEqual(await pages(ana, { Prefix: 'nothing' }), [[]])
})

test('markers continue after a key, or after one upload of it', async t => {
  const { ana, all } = await withUploads()
  const [, secondId] = all[1]!.split(' ')
  t.deepEqual(await pages(ana, { KeyMarker: 'a' }), [all.slice(3)])
  t.deepEqual(await pages(ana, { KeyMarker: 'a', UploadIdMarker: secondId }), [all.slice(2)])
  t.deepEqual(await pages(ana, { UploadIdMarker: secondId }), [all], 'an id without its key is ignored, as by S3')
})

test('keys are encoded on request', async t => {
  const ana = await s3Account(api())
  await opened(ana, 'x\u0001/ü +&')
  const { text } = await ana.wire.send('GET', '/private?uploads&encoding-type=url&prefix=x%01')
  t.deepEqual(elementsOf(text, 'Key'), ['x%01/%C3%BC%20%2B%26'])
  t.deepEqual(elementsOf(text, 'Prefix'), ['x%01'])
  t.deepEqual(elementsOf(text, 'EncodingType'), ['url'])
  t.is((await ana.wire.send('GET', '/private?uploads&encoding-type=hex')).code, 'InvalidArgument')
  for (const bad of ['max-uploads=-1', 'max-uploads=abc', 'prefix=%00'])
    t.is((await ana.wire.send('GET', `/private?uploads&${bad}`)).code, 'InvalidArgument', bad)
})

test('uploads of other accounts and buckets, and those that have ended, are not listed', async t => {
  const [ana, ben] = [await s3Account(api()), await s3Account(api())]
  await opened(ben, 'bens')
  await opened(ana, 'public', { Bucket: 'public' })
  const ended = await opened(ana, 'ended')
  await ana.send(new AbortMultipartUploadCommand({ Bucket, Key: 'ended', UploadId: ended }))
  const own = await opened(ana, 'own', { ChecksumAlgorithm: 'SHA256' })
  const { Uploads } = await ana.send(new ListMultipartUploadsCommand({ Bucket }))
  t.deepEqual(
    Uploads?.map(({ UploadId, ChecksumAlgorithm, ChecksumType }) => [UploadId, ChecksumAlgorithm, ChecksumType]),
    [[own, 'SHA256', 'COMPOSITE']],
  )
  t.is(Uploads?.[0]?.Owner?.ID, ana.user.id)
})

test('a key that is limited to prefixes lists only uploads within them', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'mine/a')
  await opened(ana, 'other/a')
  const { key } = await api().makeKey(ana.user, { scopes: ['blob:read'], prefixes: ['mine/'] })
  const limited = await s3Account(api(), { user: ana.user, key })
  t.deepEqual(await pages(limited, {}), [[`mine/a ${id}`]])
  t.is((await limited.wire.send('GET', '/private?uploads&prefix=other/')).code, 'AccessDenied')
  t.is((await limited.wire.send('POST', '/private/mine/b?uploads')).code, 'AccessDenied', 'it only reads')
})

test('pages of parts of every size add up to the same list', async t => {
  const ana = await s3Account(api())
  const UploadId = await opened(ana, 'parts')
  const numbers = [1, 2, 5, 9, 100]
  for (const number of numbers) await sent(ana, 'parts', UploadId, number, 'x'.repeat(number))
  for (let MaxParts = 1; MaxParts <= 6; MaxParts++) {
    const found: (number | undefined)[][] = []
    for (let PartNumberMarker: string | undefined; ; ) {
      const page = await ana.send(new ListPartsCommand({ Bucket, Key: 'parts', UploadId, MaxParts, PartNumberMarker }))
      found.push((page.Parts ?? []).map(part => part.Size))
      if (!page.IsTruncated) break
      PartNumberMarker = page.NextPartNumberMarker
    }
    t.deepEqual(found.flat(), numbers)
    t.true(found.every(page => page.length <= MaxParts && page.length > 0))
  }
  const list = (query: string) => ana.wire.send('GET', `/private/parts?uploadId=${UploadId}&${query}`)
  const after = await list('part-number-marker=5')
  t.deepEqual(elementsOf(after.text, 'PartNumber'), ['9', '100'])
  const none = await list('max-parts=0')
  t.deepEqual([elementOf(none, 'IsTruncated'), elementsOf(none.text, 'PartNumber')], ['false', []])
  for (const bad of ['max-parts=-1', 'max-parts=x', 'part-number-marker=x'])
    t.is((await list(bad)).code, 'InvalidArgument', bad)
})
