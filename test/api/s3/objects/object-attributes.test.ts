import { randomBytes } from 'node:crypto'
import { GetObjectAttributesCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const crc32 = 'NhCmhg==' // of hello

test('only the requested attributes of an object are returned', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/k', { body: 'hello', headers: { 'x-amz-checksum-crc32': crc32 } })
  const asked = (names: string, target = '/private/k') =>
    wire.send('GET', `${target}?attributes`, { headers: { 'x-amz-object-attributes': names } })
  const inner = ({ text }: { text: string }) =>
    text.replace(/^.*?<GetObjectAttributesResponse[^>]*>|<\/GetObj.*$/gs, '')
  t.is(inner(await asked('ObjectSize')), '<ObjectSize>5</ObjectSize>')
  t.is(
    inner(await asked('ETag, Checksum,StorageClass')),
    `<ETag>5d41402abc4b2a76b9719d911017c592</ETag><Checksum><ChecksumCRC32>${crc32}</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></Checksum><StorageClass>STANDARD</StorageClass>`,
  )
  t.is(inner(await asked('ObjectParts')), '', 'it is in one piece')
  t.truthy((await asked('ETag')).headers['last-modified'])
  for (const names of ['', 'Size', 'ETag,Owner']) t.is((await asked(names)).code, 'InvalidArgument', names)
  t.is((await wire.send('GET', '/private/k?attributes')).code, 'InvalidArgument')
  t.is((await asked('ETag', '/private/none')).code, 'NoSuchKey')
})

test('the AWS SDK pages through the parts of an object', async t => {
  const ana = await api().makeUser()
  const pieces = [1, 2, 3].map(size => randomBytes(size))
  await madeObject(api(), ana, { key: 'parts', pieces, etag: `${'a'.repeat(32)}-3` })
  const { client, send } = await s3Of(api(), ana)
  const page = async (more: object) => {
    const ask = { Bucket: 'private', Key: 'parts', ObjectAttributes: ['ObjectParts' as const], ...more }
    const { ObjectParts } = await send(new GetObjectAttributesCommand(ask))
    return [ObjectParts?.TotalPartsCount, ObjectParts?.IsTruncated, ObjectParts?.NextPartNumberMarker]
  }
  t.deepEqual(await page({}), [3, false, '3'])
  t.deepEqual(await page({ MaxParts: 2 }), [3, true, '2'])
  t.deepEqual(await page({ MaxParts: 2, PartNumberMarker: '2' }), [3, false, '3'])
  client.destroy()
})
