import { randomBytes } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { blobUpkeep } from '../../../../activities/blob-upkeep.ts'
import { MiB } from '../../../../lib/bytes.ts'
import type { ChecksumAlgorithm } from '../../../../lib/checksums.ts'
import { newId } from '../../../../policy/ids.ts'
import { upkeepTimes } from '../../../../policy/objects/blob-upkeep.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { refusal, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { completed, opened, sent } from '../../../kit/s3/parts.ts'
import { answerOf, elementOf, objectPath } from '../../../kit/s3/wire.ts'

const api = testApi()

const Bucket = 'private'
const whole = randomBytes(5 * MiB)

/** An upload with these parts. */
async function filled(
  ana: S3Account,
  Key: string,
  parts: Record<number, Buffer | string>,
  more: { ChecksumAlgorithm?: ChecksumAlgorithm } = {},
) {
  const id = await opened(ana, Key, more)
  const etags: Record<number, string> = {}
  for (const [part, body] of Object.entries(parts))
    etags[Number(part)] = (await sent(ana, Key, id, Number(part), body, more)).ETag!
  return { id, etags }
}

const contentOf = async ({ send }: S3Account, Key: string) =>
  Buffer.from(await (await send(new GetObjectCommand({ Bucket, Key }))).Body!.transformToByteArray())

const document = (parts: [number: string | number, etag: string][]) =>
  `<CompleteMultipartUpload>${parts.map(([n, etag]) => `<Part><PartNumber>${n}</PartNumber><ETag>${etag}</ETag></Part>`).join('')}</CompleteMultipartUpload>`

const post = ({ wire }: S3Account, Key: string, id: string, body: string, headers = {}) =>
  wire.send('POST', `${objectPath(Bucket, Key)}?uploadId=${id}`, { body, headers })

const openIds = async ({ send }: S3Account) =>
  (await send(new ListMultipartUploadsCommand({ Bucket }))).Uploads?.map(({ UploadId }) => UploadId) ?? []

test('the listed parts become the object in their order, and the others are dropped', async t => {
  const ana = await s3Account(api())
  const { id } = await filled(ana, 'film', { 3: 'end', 1: whole, 2: 'not listed', 9: 'nor this' })
  const answer = await completed(ana, 'film', id, [1, 3])
  t.regex(answer.ETag!, /^"[0-9a-f]{32}-2"$/)
  t.like(answer, { Bucket, Key: 'film', Location: `${api().services.config.urls.s3}/private/film` })
  t.true((await contentOf(ana, 'film')).equals(Buffer.concat([whole, Buffer.from('end')])))
  t.deepEqual(await api().db('upload_parts').where({ upload_id: id }), [])
  const { PartsCount, ContentLength } = await ana.send(new HeadObjectCommand({ Bucket, Key: 'film', PartNumber: 2 }))
  t.deepEqual([PartsCount, ContentLength], [2, 3])
  t.deepEqual(await openIds(ana), [])
})

test('a wrong list of parts is refused, and the upload remains open', async t => {
  const ana = await s3Account(api())
  const { id, etags } = await filled(ana, 'wrong', { 1: 'small', 2: 'last' })
  const tag = (part: number) => etags[part]!.replaceAll('"', '&quot;')
  const cases: [code: string, body: string][] = [
    [
      'InvalidPartOrder',
      document([
        [2, tag(2)],
        [1, tag(1)],
      ]),
    ],
    [
      'InvalidPartOrder',
      document([
        [1, tag(1)],
        [1, tag(1)],
      ]),
    ],
    [
      'InvalidPart',
      document([
        [1, tag(1)],
        [3, tag(2)],
      ]),
    ],
    ['InvalidPart', document([[1, tag(2)]])],
    ['InvalidPart', document([[0, tag(1)]])],
    ['InvalidPart', document([[1, '']])],
    [
      'EntityTooSmall',
      document([
        [1, tag(1)],
        [2, tag(2)],
      ]),
    ],
    ['MalformedXML', document([])],
    ['MalformedXML', document([['one', tag(1)]])],
    ['MalformedXML', '<Other/>'],
    ['MalformedXML', '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>'],
    ['MalformedXML', ''],
  ]
  for (const [code, body] of cases) t.is((await post(ana, 'wrong', id, body)).code, code, body)
  const tooSmall = await post(
    ana,
    'wrong',
    id,
    document([
      [1, tag(1)],
      [2, tag(2)],
    ]),
  )
  t.deepEqual(
    ['PartNumber', 'ProposedSize', 'MinSizeAllowed'].map(name => elementOf(tooSmall, name)),
    ['1', '5', '5242880'],
  )
  t.deepEqual(await openIds(ana), [id])
  t.is(await refusal(contentOf(ana, 'wrong')), 'NoSuchKey')
})

test('ETags of parts are accepted with and without quotes, in upper and lower case', async t => {
  const ana = await s3Account(api())
  const ways = [
    (tag: string) => tag,
    (tag: string) => `"${tag}"`,
    (tag: string) => `&quot;${tag}&quot;`,
    (tag: string) => tag.toUpperCase(),
  ]
  for (const [n, write] of ways.entries()) {
    const { id, etags } = await filled(ana, `tags-${n}`, { 1: 'x' })
    const answer = await post(ana, `tags-${n}`, id, document([[1, write(etags[1]!.replaceAll('"', ''))]]))
    t.is(answer.status, 200, answer.text)
  }
})

test('conditions are evaluated on completion, and a failed one leaves the upload open', async t => {
  const ana = await s3Account(api())
  const { id } = await filled(ana, 'name', { 1: 'new' })
  t.is(await refusal(completed(ana, 'name', id, [1], { IfMatch: '"x"' })), 'NoSuchKey')
  const { ETag } = await ana.send(new PutObjectCommand({ Bucket, Key: 'name', Body: 'old' }))
  t.is(await refusal(completed(ana, 'name', id, [1], { IfNoneMatch: '*' })), 'PreconditionFailed')
  t.is(await refusal(completed(ana, 'name', id, [1], { IfMatch: '"x"' })), 'PreconditionFailed')
  t.is((await contentOf(ana, 'name')).toString(), 'old')
  await completed(ana, 'name', id, [1], { IfMatch: ETag })
  t.is((await contentOf(ana, 'name')).toString(), 'new')
  const { id: second } = await filled(ana, 'free', { 1: 'new' })
  await t.notThrowsAsync(completed(ana, 'free', second, [1], { IfNoneMatch: '*' }))
})

test('the size of the object that the client states must be that of the parts', async t => {
  const ana = await s3Account(api())
  const { id } = await filled(ana, 'size', { 1: 'four' })
  t.is(await refusal(completed(ana, 'size', id, [1], { MpuObjectSize: 5 })), 'InvalidRequest')
  await t.notThrowsAsync(completed(ana, 'size', id, [1], { MpuObjectSize: 4 }))
})

test('a repeated completion gets the same answer', async t => {
  const ana = await s3Account(api())
  const { id, etags } = await filled(ana, 'again', { 1: 'x' }, { ChecksumAlgorithm: 'SHA256' })
  const body = document([[1, etags[1]!]])
  const first = await post(ana, 'again', id, body)
  const second = await post(ana, 'again', id, body, { 'if-none-match': '*' })
  t.is(first.status, 200)
  t.true(first.text.includes('<ChecksumSHA256>'))
  t.is(second.text, first.text)
  t.is((await post(await s3Account(api()), 'again', id, body)).code, 'NoSuchUpload', 'another account')
  t.is((await post(ana, 'other', id, body)).code, 'NoSuchUpload', 'another key')
  t.is(await refusal(ana.send(new AbortMultipartUploadCommand({ Bucket, Key: 'again', UploadId: id }))), 'NoSuchUpload')
})

test('concurrent completions and aborts have one outcome, and all completions get the same answer', async t => {
  const ana = await s3Account(api())
  for (let round = 0; round < 8; round++) {
    const Key = `race-${round}`
    const { id, etags } = await filled(ana, Key, { 1: 'x' })
    const body = document([[1, etags[1]!]])
    const abort = () => ana.wire.send('DELETE', `${objectPath(Bucket, Key)}?uploadId=${id}`)
    const complete = () => post(ana, Key, id, body)
    const racing = round % 2 ? [abort, complete, complete] : [complete, abort, complete, abort]
    const answers = await Promise.all(racing.map(act => act()))
    const done = racing.map((act, n) => (act === complete ? answers[n]! : undefined)).filter(one => one !== undefined)
    const aborted = answers.some(({ status }) => status === 204)
    t.is(new Set(done.map(({ status, text, code }) => (status === 200 ? text : code))).size, 1)
    t.is(done[0]!.code, aborted ? 'NoSuchUpload' : undefined)
    const found = await ana.send(new HeadObjectCommand({ Bucket, Key })).then(
      () => true,
      () => false,
    )
    t.is(found, !aborted)
  }
})

test('an aborted upload cannot be aborted or completed, and a part that is still arriving leaves nothing', async t => {
  const ana = await s3Account(api())
  const { id, etags } = await filled(ana, 'gone', { 1: 'x' })
  const body = randomBytes(64)
  const late = ana.wire.open('PUT', `/private/gone?partNumber=2&uploadId=${id}`, { body, length: body.length })
  late.write(body.subarray(0, 32))
  const abort = new AbortMultipartUploadCommand({ Bucket, Key: 'gone', UploadId: id })
  await ana.send(abort)
  late.end(body.subarray(32))
  t.is((await answerOf(late)).code, 'NoSuchUpload')
  t.is(await refusal(ana.send(abort)), 'NoSuchUpload')
  t.is((await post(ana, 'gone', id, document([[1, etags[1]!]]))).code, 'NoSuchUpload')
  t.deepEqual(await api().db('upload_parts').where({ upload_id: id }), [])
})

test.serial('upkeep removes idle uploads with their bytes, and never a completed object', async t => {
  const ana = await s3Account(api())
  const [idle, busy, done] = await Promise.all(['idle', 'busy', 'done'].map(Key => filled(ana, Key, { 1: whole })))
  await completed(ana, 'done', done!.id, [1])
  const { db, store } = api()
  await db('uploads').whereIn('id', [idle!.id, done!.id]).update({ last_activity_at: '2000-01-01' })
  const [{ segment_id: idleSegment }] = await db('upload_parts').where({ upload_id: idle!.id })
  const files = await store.files()
  const upkeep = blobUpkeep(db, store, { ...upkeepTimes, unreferencedSeconds: 0, downloadSeconds: 0 })
  for (const kind of ['reclaim', 'sweep'] as const) {
    const receipt = newId()
    await upkeep.openReceipt(receipt, kind)
    await (kind === 'reclaim' ? upkeep.reclaimUploads(receipt) : upkeep.sweepSegments(receipt))
    await upkeep.closeReceipt(receipt, null)
  }
  t.deepEqual(await openIds(ana), [busy!.id])
  t.deepEqual(await db('segments').where({ id: idleSegment }), [])
  t.is(await store.files(), files - 1)
  t.true((await contentOf(ana, 'done')).equals(whole))
  t.is((await post(ana, 'idle', idle!.id, document([[1, idle!.etags[1]!]]))).code, 'NoSuchUpload')
  await t.notThrowsAsync(completed(ana, 'busy', busy!.id, [1]))
})
