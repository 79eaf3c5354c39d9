import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  NoSuchUpload,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import test from 'ava'
import { bodyOf, hex, noise } from '../kit/bodies.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { plainRequest, sendForm } from '../kit/s3/plain-request.ts'
import { sdkClient } from '../kit/s3/sdk-client.ts'

const { access } = testGateway()
const mebibyte = 1024 * 1024

for (const wire of wires) {
  const at = (key: string) => ({ Bucket: bucket, Key: `${wire}/${key}` })

  test.serial(`${wire}: a stream of unknown length is uploaded in parts`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const bytes = noise(12 * mebibyte)
    const params = { ...at('stream'), Body: bodyOf(bytes), ContentType: 'video/mp4', Metadata: { by: 'lib-storage' } }
    const upload = new Upload({ client: s3, params, partSize: 5 * mebibyte, queueSize: 2 })
    const loaded: number[] = []
    upload.on('httpUploadProgress', progress => loaded.push(progress.loaded ?? 0))
    const done = await upload.done()
    t.regex(done.ETag ?? '', /^"[0-9a-f]{32}-3"$/)
    t.is(Math.max(...loaded), bytes.length)
    const head = await s3.send(new HeadObjectCommand(at('stream')))
    t.like(head, {
      ContentLength: bytes.length,
      ContentType: 'video/mp4',
      ETag: done.ETag,
      Metadata: { by: 'lib-storage' },
    })
    const got = await s3.send(new GetObjectCommand(at('stream')))
    t.is(hex('md5', Buffer.from(await got.Body!.transformToByteArray())), hex('md5', bytes))
    const second = await s3.send(new GetObjectCommand({ ...at('stream'), PartNumber: 2 }))
    t.is(second.PartsCount, 3)
    t.is(
      hex('md5', Buffer.from(await second.Body!.transformToByteArray())),
      hex('md5', bytes.subarray(5 * mebibyte, 10 * mebibyte)),
    )
    const parts = await s3.send(new GetObjectAttributesCommand({ ...at('stream'), ObjectAttributes: ['ObjectParts'] }))
    t.is(parts.ObjectParts?.TotalPartsCount, 3)
  })

  test.serial(`${wire}: a short stream is uploaded with one request`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const upload = new Upload({ client: s3, params: { ...at('short'), Body: Readable.from(['a few ', 'words']) } })
    await upload.done()
    const got = await s3.send(new GetObjectCommand(at('short')))
    t.is(await got.Body!.transformToString(), 'a few words')
  })

  test.serial(`${wire}: an upload in parts is listed, completed once, or aborted`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at('parts/é')))
    const bytes = noise(5 * mebibyte + 1)
    const part = (PartNumber: number, Body: Uint8Array) =>
      s3.send(new UploadPartCommand({ ...at('parts/é'), UploadId, PartNumber, Body }))
    // Sent again with other bytes: the later ones count.
    await part(3, Buffer.from('other'))
    const last = await part(3, bytes.subarray(5 * mebibyte))
    const first = await part(1, bytes.subarray(0, 5 * mebibyte))
    const listed = await s3.send(new ListPartsCommand({ ...at('parts/é'), UploadId }))
    t.deepEqual(
      listed.Parts?.map(({ PartNumber, Size, ETag }) => [PartNumber, Size, ETag]),
      [
        [1, 5 * mebibyte, first.ETag],
        [3, 1, last.ETag],
      ],
    )
    const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: `${wire}/parts/` }))
    t.deepEqual(
      uploads.Uploads?.map(upload => [upload.Key, upload.UploadId]),
      [[`${wire}/parts/é`, UploadId]],
    )
    const Parts = [
      { PartNumber: 1, ...checked(first) },
      { PartNumber: 3, ...checked(last) },
    ]
    const complete = (parts: object[]) =>
      s3.send(new CompleteMultipartUploadCommand({ ...at('parts/é'), UploadId, MultipartUpload: { Parts: parts } }))
    await t.throwsAsync(complete(Parts.toReversed()), { name: 'InvalidPartOrder' })
    await t.throwsAsync(complete([{ ...Parts[0], ETag: `"${'0'.repeat(32)}"` }]), { name: 'InvalidPart' })
    t.regex((await complete(Parts)).ETag ?? '', /-2"$/)
    const got = await s3.send(new GetObjectCommand(at('parts/é')))
    t.is(hex('md5', Buffer.from(await got.Body!.transformToByteArray())), hex('md5', bytes))

    const aborted = await s3.send(new CreateMultipartUploadCommand(at('parts/aborted')))
    const own = { ...at('parts/aborted'), UploadId: aborted.UploadId }
    await s3.send(new UploadPartCommand({ ...own, PartNumber: 1, Body: 'x' }))
    await s3.send(new AbortMultipartUploadCommand(own))
    await t.throwsAsync(s3.send(new ListPartsCommand(own)), { instanceOf: NoSuchUpload })
    await t.throwsAsync(s3.send(new UploadPartCommand({ ...own, PartNumber: 1, Body: 'x' })), { name: 'NoSuchUpload' })
    const none = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: `${wire}/parts/` }))
    t.deepEqual(none.Uploads ?? [], [])
  })

  test.serial(`${wire}: an upload in parts that are too small is refused`, async t => {
    const s3 = sdkClient(t, await access(wire))
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at('small')))
    const Parts = []
    for (const PartNumber of [1, 2]) {
      const { ETag } = await s3.send(new UploadPartCommand({ ...at('small'), UploadId, PartNumber, Body: 'small' }))
      Parts.push({ PartNumber, ETag })
    }
    const complete = new CompleteMultipartUploadCommand({ ...at('small'), UploadId, MultipartUpload: { Parts } })
    await t.throwsAsync(s3.send(complete), { name: 'EntityTooSmall' })
    await s3.send(new AbortMultipartUploadCommand({ ...at('small'), UploadId }))
  })

  test.serial(`${wire}: presigned addresses allow reading and writing one object until they expire`, async t => {
    const given = await access(wire)
    const s3 = sdkClient(t, given)
    const target = at('signed/ä +%.txt')
    const put = await getSignedUrl(s3, new PutObjectCommand({ ...target, ContentType: 'text/plain' }), {
      expiresIn: 60,
    })
    const body = Buffer.from('by another')
    const headers = { 'content-type': 'text/plain', 'content-length': String(body.length) }
    const stored = await plainRequest(put, given, { method: 'PUT', headers, body })
    t.is(stored.status, 200, String(stored.body))
    const ResponseContentDisposition = 'attachment; filename="for you.txt"'
    const get = await getSignedUrl(s3, new GetObjectCommand({ ...target, ResponseContentDisposition }), {
      expiresIn: 60,
    })
    const got = await plainRequest(get, given)
    t.is(got.status, 200, String(got.body))
    t.deepEqual(got.body, body)
    t.is(got.headers['content-type'], 'text/plain')
    t.is(got.headers['content-disposition'], ResponseContentDisposition)
    const range = await plainRequest(get, given, { headers: { range: 'bytes=-7' } })
    t.is(String(range.body), 'another')
    const changed = await plainRequest(get.replace('for%20you', 'for%20me'), given)
    t.is(changed.status, 403)
    t.regex(String(changed.body), /<Code>SignatureDoesNotMatch<\/Code>/)
    const early = { expiresIn: 60, signingDate: new Date(Date.now() - 120_000) }
    const expired = await plainRequest(await getSignedUrl(s3, new GetObjectCommand(target), early), given)
    t.is(expired.status, 403)
    t.regex(String(expired.body), /<Code>AccessDenied<\/Code>/)
    t.is((await plainRequest(get.split('?')[0]!, given)).status, 403, 'without a signature')
  })

  test.serial(`${wire}: a signed form stores what its policy allows`, async t => {
    const given = await access(wire)
    const s3 = sdkClient(t, given)
    const form = await createPresignedPost(s3, {
      Bucket: bucket,
      Key: `${wire}/forms/\${filename}`,
      Conditions: [
        ['content-length-range', 1, 100],
        ['starts-with', '$Content-Type', 'text/'],
      ],
      Fields: { 'Content-Type': 'text/plain', 'x-amz-meta-from': 'form' },
      Expires: 60,
    })
    const send = (bytes: string, fields = {}) =>
      sendForm(
        { ...form, fields: { ...form.fields, ...fields } },
        { name: 'note ü.txt', bytes: Buffer.from(bytes) },
        given,
      )
    const stored = await send('a note')
    t.is(stored.status, 204, String(stored.body))
    const got = await s3.send(new GetObjectCommand(at('forms/note ü.txt')))
    t.like(got, { ContentType: 'text/plain', Metadata: { from: 'form' } })
    t.is(await text(got.Body as Readable), 'a note')
    for (const [answer, status, code] of [
      [await send('x'.repeat(101)), 400, 'EntityTooLarge'],
      [await send(''), 400, 'EntityTooSmall'],
      [await send('a note', { 'Content-Type': 'image/png' }), 403, 'AccessDenied'],
      [await send('a note', { key: `${wire}/other` }), 403, 'AccessDenied'],
      [await send('a note', { 'x-amz-meta-more': 'x' }), 403, 'AccessDenied'],
      [await send('a note', { 'X-Amz-Signature': '0'.repeat(64) }), 403, 'SignatureDoesNotMatch'],
    ] as const) {
      t.is(answer.status, status, String(answer.body))
      t.regex(String(answer.body), new RegExp(`<Code>${code}</Code>`))
    }
    const Key = `${wire}/forms/created`
    const other = await createPresignedPost(s3, { Bucket: bucket, Key, Fields: { success_action_status: '201' } })
    const created = await sendForm(other, { name: 'x', bytes: Buffer.from('created') }, given)
    t.is(created.status, 201, String(created.body))
    t.true(String(created.body).includes(`<Key>${Key}</Key>`), String(created.body))
  })
}

/** What a client lists of a part: its ETag, and the checksums that were returned for it. */
const checked = ({ ETag, ChecksumCRC32 }: { ETag?: string; ChecksumCRC32?: string }) => ({ ETag, ChecksumCRC32 })
