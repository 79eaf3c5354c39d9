import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import {
  CopyObjectCommand,
  DeleteObjectsCommand,
  DeleteObjectTaggingCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  NoSuchBucket,
  NoSuchKey,
  NotFound,
  PutObjectCommand,
  PutObjectTaggingCommand,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { hex, noise } from '../kit/bodies.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { sdkClient } from '../kit/s3/sdk-client.ts'

const { access } = testGateway()

/** An error as the SDK throws it. */
interface Refusal extends Error {
  $metadata: { httpStatusCode?: number }
}

for (const wire of wires) {
  const at = (key: string) => ({ Bucket: bucket, Key: `${wire}/${key}` })

  test.serial(`${wire}: bytes and a stream are stored and returned, whole and in ranges`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const bytes = noise(300_000)
    const put = await s3.send(new PutObjectCommand({ ...at('bytes'), Body: bytes, ContentType: 'image/png' }))
    t.is(put.ETag, `"${hex('md5', bytes)}"`)
    const got = await s3.send(new GetObjectCommand(at('bytes')))
    t.is(got.ContentType, 'image/png')
    t.is(got.ContentLength, bytes.length)
    t.deepEqual(Buffer.from(await got.Body!.transformToByteArray()), bytes)
    const part = await s3.send(new GetObjectCommand({ ...at('bytes'), Range: 'bytes=1000-1999' }))
    t.is(part.$metadata.httpStatusCode, 206)
    t.is(part.ContentRange, `bytes 1000-1999/${bytes.length}`)
    t.deepEqual(Buffer.from(await part.Body!.transformToByteArray()), bytes.subarray(1000, 2000))
    // Its checksum is sent after the bytes, as a trailer.
    const stream = { Body: Readable.from([bytes.subarray(0, 100_000), bytes.subarray(100_000)], { objectMode: false }) }
    await s3.send(new PutObjectCommand({ ...at('stream'), ...stream, ContentLength: bytes.length }))
    const streamed = await s3.send(new GetObjectCommand(at('stream')))
    t.deepEqual(Buffer.from(await streamed.Body!.transformToByteArray()), bytes)
    await s3.send(new PutObjectCommand({ ...at('empty'), Body: '' }))
    t.is(await (await s3.send(new GetObjectCommand(at('empty')))).Body!.transformToString(), '')
  })

  test.serial(
    `${wire}: headers and metadata are stored, other alphabets as RFC 2047 words or percent-encoded`,
    async t => {
      const s3 = sdkClient(t, await access(wire))
      const headers = {
        CacheControl: 'max-age=60',
        ContentDisposition: `attachment; filename*=UTF-8''gr%C3%BC%C3%9Fe.txt`,
        ContentEncoding: 'identity',
        ContentLanguage: 'de',
        ContentType: 'text/plain; charset=utf-8',
      }
      const mail = `=?UTF-8?B?${Buffer.from('Grüße aus 東京').toString('base64')}?=`
      const Metadata = { title: encodeURIComponent('Grüße aus 東京'), mail, 'with-dash': 'a, b;  c' }
      await s3.send(new PutObjectCommand({ ...at('headers'), Body: 'Grüße', ...headers, Metadata }))
      const head = await s3.send(new HeadObjectCommand(at('headers')))
      t.like(head, { ...headers, Metadata, ContentLength: 7 })
      t.true(Math.abs(head.LastModified!.getTime() - Date.now()) < 60_000)
      // Node sends this as Latin-1 or as UTF-8, depending on the type of the body; the SDK signs it as UTF-8.
      for (const Body of ['text', Buffer.from('bytes')]) {
        await s3.send(new PutObjectCommand({ ...at('latin'), Body, Metadata: { title: 'Grüße à la' } }))
        const { title } = (await s3.send(new HeadObjectCommand(at('latin')))).Metadata!
        t.is(title, `=?UTF-8?B?${Buffer.from('Grüße à la').toString('base64')}?=`)
      }
      const got = await s3.send(new GetObjectCommand({ ...at('headers'), ResponseContentType: 'text/html' }))
      t.is(got.ContentType, 'text/html')
      t.is(await got.Body!.transformToString(), 'Grüße')
    },
  )

  test.serial(`${wire}: objects are listed in pages, with folders`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const names = ['a', 'b/1', 'b/2', 'c', 'd/1', 'é and +', 'z/%41/y']
    for (const name of names) await s3.send(new PutObjectCommand({ ...at(`list/${name}`), Body: name }))
    const Prefix = `${wire}/list/`
    const found: string[] = []
    let pages = 0
    for await (const page of paginateListObjectsV2(
      { client: s3, pageSize: 2 },
      { Bucket: bucket, Prefix, Delimiter: '/' },
    )) {
      pages++
      const here = [
        ...(page.Contents ?? []).map(({ Key }) => Key!),
        ...(page.CommonPrefixes ?? []).map(one => one.Prefix!),
      ]
      t.is(page.KeyCount, here.length)
      t.true(here.length <= 2)
      found.push(...here)
    }
    t.is(pages, 3)
    t.deepEqual(found.map(key => key.slice(Prefix.length)).sort(), ['a', 'b/', 'c', 'd/', 'z/', 'é and +'].sort())
    const rest = await s3.send(new ListObjectsV2Command({ Bucket: bucket, Prefix, StartAfter: `${Prefix}c` }))
    t.deepEqual(
      rest.Contents?.map(({ Key, Size }) => [Key!.slice(Prefix.length), Size]),
      [
        ['d/1', 3],
        ['z/%41/y', 7],
        ['é and +', 8],
      ],
    )
    t.is(rest.Contents?.[0]?.ETag, `"${createHash('md5').update('d/1').digest('hex')}"`)
    const { Buckets } = await s3.send(new ListBucketsCommand({}))
    t.true(Buckets?.some(({ Name }) => Name === bucket))
    await s3.send(new HeadBucketCommand({ Bucket: bucket }))
  })

  test.serial(
    `${wire}: a copy has the metadata of its source or its own, and many are deleted with one request`,
    async t => {
      const s3 = sdkClient(t, await access(wire))
      const source = at('copy/source ü+%.txt')
      await s3.send(
        new PutObjectCommand({ ...source, Body: 'copied', ContentType: 'text/plain', Metadata: { of: 'source' } }),
      )
      const CopySource = `${bucket}/${encodeURIComponent(source.Key)}`
      const copy = await s3.send(new CopyObjectCommand({ ...at('copy/same'), CopySource }))
      t.is(copy.CopyObjectResult?.ETag, `"${createHash('md5').update('copied').digest('hex')}"`)
      t.like(await s3.send(new HeadObjectCommand(at('copy/same'))), {
        ContentType: 'text/plain',
        Metadata: { of: 'source' },
      })
      const own = { MetadataDirective: 'REPLACE', ContentType: 'text/csv', Metadata: { of: 'copy' } } as const
      await s3.send(new CopyObjectCommand({ ...at('copy/own'), CopySource, ...own }))
      t.like(await s3.send(new HeadObjectCommand(at('copy/own'))), {
        ContentType: 'text/csv',
        Metadata: { of: 'copy' },
      })
      const keys = ['copy/same', 'copy/own', 'copy/source ü+%.txt', 'copy/<missing>'].map(name => at(name).Key)
      const Delete = { Objects: keys.map(Key => ({ Key })) }
      const { Deleted, Errors } = await s3.send(new DeleteObjectsCommand({ Bucket: bucket, Delete }))
      t.deepEqual(Deleted?.map(({ Key }) => Key).sort(), [...keys].sort())
      t.deepEqual(Errors ?? [], [])
      const left = await s3.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `${wire}/copy/` }))
      t.is(left.KeyCount, 0)
    },
  )

  test.serial(`${wire}: conditions of reads and writes are evaluated`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const put = (more: object) => s3.send(new PutObjectCommand({ ...at('conditions'), Body: 'one', ...more }))
    const refused = async (work: Promise<unknown>, status: number, name?: string) => {
      const error = (await t.throwsAsync(work)) as Refusal
      t.is(error.$metadata.httpStatusCode, status, String(error))
      if (name) t.is(error.name, name)
    }
    const { ETag } = await put({ IfNoneMatch: '*' })
    await refused(put({ IfNoneMatch: '*' }), 412, 'PreconditionFailed')
    await refused(put({ IfMatch: '"00000000000000000000000000000000"' }), 412, 'PreconditionFailed')
    await put({ IfMatch: ETag })
    await refused(s3.send(new GetObjectCommand({ ...at('conditions'), IfNoneMatch: ETag })), 304)
    await refused(s3.send(new GetObjectCommand({ ...at('conditions'), IfMatch: '"other"' })), 412, 'PreconditionFailed')
    const yesterday = new Date(Date.now() - 86_400_000)
    await refused(s3.send(new GetObjectCommand({ ...at('conditions'), IfUnmodifiedSince: yesterday })), 412)
  })

  test.serial(`${wire}: checksums are verified, stored and returned`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const bytes = noise(70_000)
    const wrong = createHash('sha256').update('other').digest('base64')
    for (const checksum of [
      { ChecksumSHA256: wrong },
      { ChecksumCRC32: 'AAAAAA==' },
      { ContentMD5: hash('md5', 'other') },
    ]) {
      const error = await t.throwsAsync(s3.send(new PutObjectCommand({ ...at('checksums'), Body: bytes, ...checksum })))
      t.is(error?.name, 'BadDigest', JSON.stringify(checksum))
    }
    await t.throwsAsync(s3.send(new HeadObjectCommand(at('checksums'))), { instanceOf: NotFound })
    for (const ChecksumAlgorithm of ['CRC32', 'CRC32C', 'SHA1', 'SHA256'] as const) {
      const put = await s3.send(new PutObjectCommand({ ...at('checksums'), Body: bytes, ChecksumAlgorithm }))
      const field = `Checksum${ChecksumAlgorithm}` as const
      t.truthy(put[field])
      const head = await s3.send(new HeadObjectCommand({ ...at('checksums'), ChecksumMode: 'ENABLED' }))
      t.is(head[field], put[field])
      const { Body } = await s3.send(new GetObjectCommand(at('checksums')))
      t.deepEqual(Buffer.from(await Body!.transformToByteArray()), bytes, 'the SDK compares as it reads')
    }
    const ObjectAttributes = ['ETag', 'Checksum', 'ObjectSize', 'StorageClass', 'ObjectParts'] as const
    const found = await s3.send(
      new GetObjectAttributesCommand({ ...at('checksums'), ObjectAttributes: [...ObjectAttributes] }),
    )
    const ChecksumSHA256 = createHash('sha256').update(bytes).digest('base64')
    t.like(found, {
      ETag: hex('md5', bytes),
      ObjectSize: bytes.length,
      StorageClass: 'STANDARD',
      Checksum: { ChecksumSHA256 },
    })
  })

  test.serial(`${wire}: tags are put, read and removed`, async t => {
    const s3 = sdkClient(t, await access(wire))
    await s3.send(new PutObjectCommand({ ...at('tags'), Body: 'x', Tagging: 'project=berth&of=a%20person' }))
    const tags = async () => {
      const { TagSet = [] } = await s3.send(new GetObjectTaggingCommand(at('tags')))
      return Object.fromEntries(TagSet.map(({ Key, Value }) => [Key, Value]))
    }
    t.deepEqual(await tags(), { project: 'berth', of: 'a person' })
    t.is((await s3.send(new GetObjectCommand(at('tags')))).TagCount, 2)
    const Tagging = { TagSet: [{ Key: 'Größe', Value: '5 = a/b@c+d' }] }
    await s3.send(new PutObjectTaggingCommand({ ...at('tags'), Tagging }))
    t.deepEqual(await tags(), { Größe: '5 = a/b@c+d' })
    await s3.send(new DeleteObjectTaggingCommand(at('tags')))
    t.deepEqual(await tags(), {})
  })

  test.serial(`${wire}: missing objects and denied requests are errors of the SDK's types`, async t => {
    const given = await access(wire)
    const s3 = sdkClient(t, given)
    await t.throwsAsync(s3.send(new GetObjectCommand(at('missing'))), { instanceOf: NoSuchKey })
    await t.throwsAsync(s3.send(new HeadObjectCommand(at('missing'))), { instanceOf: NotFound })
    const other = s3.send(new ListObjectsV2Command({ Bucket: 'no-such-bucket' }))
    await t.throwsAsync(other, { instanceOf: NoSuchBucket })
    await s3.send(new PutObjectCommand({ ...at('short'), Body: 'short' }))
    const range = s3.send(new GetObjectCommand({ ...at('short'), Range: 'bytes=100-' }))
    await t.throwsAsync(range, { name: 'InvalidRange' })
    const guessed = sdkClient(t, { ...given, secretAccessKey: 'x'.repeat(40) })
    await t.throwsAsync(guessed.send(new GetObjectCommand(at('short'))), { name: 'SignatureDoesNotMatch' })
    const stranger = sdkClient(t, { ...given, accessKeyId: 'BRTH0123456789ABCDEF' })
    await t.throwsAsync(stranger.send(new GetObjectCommand(at('short'))), { name: 'InvalidAccessKeyId' })
  })
}

const hash = (algorithm: string, text: string) => createHash(algorithm).update(text).digest('base64')
