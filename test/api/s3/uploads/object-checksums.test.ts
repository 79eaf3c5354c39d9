import { randomBytes } from 'node:crypto'
import { HeadObjectCommand, ListPartsCommand, UploadPartCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { MiB } from '../../../../lib/bytes.ts'
import { type ChecksumAlgorithm, checksum } from '../../../../lib/checksums.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { refusal, s3Account } from '../../../kit/s3/account.ts'
import { completed, opened, sent } from '../../../kit/s3/parts.ts'

const api = testApi()

const Bucket = 'private'
const whole = randomBytes(5 * MiB)

const digest = (algorithm: ChecksumAlgorithm, ...pieces: Buffer[]): Buffer => {
  const sum = checksum(algorithm)
  for (const piece of pieces) sum.update(piece)
  return sum.digest()
}

const types: [ChecksumAlgorithm, 'COMPOSITE' | 'FULL_OBJECT'][] = [
  ['CRC32', 'COMPOSITE'],
  ['CRC32', 'FULL_OBJECT'],
  ['CRC32C', 'COMPOSITE'],
  ['CRC32C', 'FULL_OBJECT'],
  ['CRC64NVME', 'FULL_OBJECT'],
  ['SHA1', 'COMPOSITE'],
  ['SHA256', 'COMPOSITE'],
]

for (const [ChecksumAlgorithm, ChecksumType] of types)
  test(`the ${ChecksumAlgorithm} of an object in parts is ${ChecksumType}, and a wrong one is refused`, async t => {
    const ana = await s3Account(api())
    const Key = `${ChecksumAlgorithm}/${ChecksumType}`
    const id = await opened(ana, Key, { ChecksumAlgorithm, ChecksumType })
    const pieces = [whole, Buffer.from('the rest')]
    const own = `Checksum${ChecksumAlgorithm}` as 'ChecksumCRC32'
    const digests = pieces.map(piece => digest(ChecksumAlgorithm, piece))
    const listed = []
    for (const [n, Body] of pieces.entries()) {
      const part = { Bucket, Key, UploadId: id, PartNumber: n + 1, Body, ChecksumAlgorithm }
      const { ETag } = await ana.send(new UploadPartCommand(part))
      listed.push({ PartNumber: n + 1, ETag, [own]: digests[n]!.toString('base64') })
    }
    const expected =
      ChecksumType === 'COMPOSITE'
        ? `${digest(ChecksumAlgorithm, ...digests).toString('base64')}-2`
        : digest(ChecksumAlgorithm, ...pieces).toString('base64')
    const wrong = digest(ChecksumAlgorithm, Buffer.from('other')).toString('base64')
    const other = ChecksumAlgorithm === 'SHA1' ? 'ChecksumSHA256' : 'ChecksumSHA1'
    const otherValue = digest(ChecksumAlgorithm === 'SHA1' ? 'SHA256' : 'SHA1', ...pieces).toString('base64')
    const otherType = ChecksumType === 'COMPOSITE' ? 'FULL_OBJECT' : 'COMPOSITE'
    t.is(await refusal(completed(ana, Key, id, listed, { [own]: wrong })), 'BadDigest')
    t.is(await refusal(completed(ana, Key, id, listed, { [other]: otherValue })), 'InvalidRequest')
    t.is(await refusal(completed(ana, Key, id, listed, { ChecksumType: otherType })), 'InvalidRequest')
    const changed = [listed[0]!, { ...listed[1]!, [own]: wrong }]
    t.is(await refusal(completed(ana, Key, id, changed)), 'InvalidPart')
    t.is((await ana.send(new ListPartsCommand({ Bucket, Key, UploadId: id }))).Parts?.length, 2, 'it stays open')
    const answer = await completed(ana, Key, id, listed, { [own]: expected, ChecksumType })
    t.deepEqual([answer[own], answer.ChecksumType], [expected, ChecksumType])
    const shown = await ana.send(new HeadObjectCommand({ Bucket, Key, ChecksumMode: 'ENABLED' }))
    t.deepEqual([shown[own], shown.ChecksumType], [expected, ChecksumType])
  })

test('an upload without an announced checksum has none, and accepts none', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'plain')
  await sent(ana, 'plain', id, 1, 'x')
  const ChecksumSHA256 = digest('SHA256', Buffer.from('x')).toString('base64')
  t.is(await refusal(completed(ana, 'plain', id, [1], { ChecksumSHA256 })), 'InvalidRequest')
  await completed(ana, 'plain', id, [1])
  const shown = await ana.send(new HeadObjectCommand({ Bucket, Key: 'plain', ChecksumMode: 'ENABLED' }))
  t.is(shown.ChecksumType, undefined)
})
