import { Readable } from 'node:stream'
import type { OpenedObject } from '../../../db/objects/manifests.ts'
import { openObject } from '../../../db/objects/objects.ts'
import type { NewUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import type { ByteRange } from '../../../lib/byte-range.ts'
import { MiB } from '../../../lib/bytes.ts'
import { type Checksum, type ChecksumAlgorithm, checksum as checksumFrom } from '../../../lib/checksums.ts'
import { unavailableStorage } from '../../../policy/objects/object-names.ts'
import { checksumElement } from '../../../policy/s3/s3-checksums.ts'
import { demandCopySource } from '../../../policy/s3/s3-conditions.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { openBody } from '../../files/object-body.ts'
import type { Services } from '../../services.ts'
import { storeBody } from '../../uploads/uploads.ts'
import { xmlReply } from '../answers.ts'
import { discardingOnFailure } from '../bodies/receive.ts'
import { copySource } from '../objects/copy-source.ts'
import { quotedEtag } from '../objects/object-views.ts'
import { inUploadSlot } from '../objects/upload-slots.ts'
import { assertMayWrite } from '../objects/write-object.ts'
import { headerOf, type Operation, type S3Call } from '../operation.ts'
import { countS3, stillMayWrite } from '../rights.ts'
import { ownUpload, partNumberOf } from './own-upload.ts'
import { storePart } from './store-part.ts'
import { assertPartRoom } from './upload-part.ts'

/**
 * A part from another object. Where it is exactly one stored segment, the part refers to that, and no byte moves; otherwise the bytes are
 * read and stored again, as the MD5 of the part must be known.
 */
export const uploadPartCopy: Operation = {
  name: 'UploadPartCopy',
  method: 'PUT',
  target: 'object',
  query: ['partNumber', 'uploadId'],
  header: 'x-amz-copy-source',
  support: 'supported',
  needs: 'write',
  unrecorded: true,
  async handle(call, services) {
    assertMayWrite(call)
    const part = partNumberOf(call)
    const upload = await ownUpload(call, services)
    const { source, range } = await openSource(call, services)
    const bytes = range.to - range.from + 1
    if (bytes > s3Limits.putBytes) throw new S3Error('EntityTooLarge')
    await assertPartRoom(bytes, upload, part, call, services)
    // A segment has no checksum of the algorithm that the upload announced.
    const algorithm = upload.s3?.checksum?.algorithm
    const shared = algorithm ? undefined : sharedSegment(source, range)
    const copied = { uploadId: upload.id, part }
    const { body, checksum } = shared
      ? await share({ ...copied, ...shared, shared: true }, call, services)
      : await copyBytes(copied, { source, range, algorithm }, call, services)
    return xmlReply('CopyPartResult', {
      LastModified: new Date(),
      ETag: quotedEtag(body.md5),
      ...(algorithm && { [checksumElement(algorithm)]: checksum }),
    })
  },
}

/** The source with the parts of a range of it: `x-amz-copy-source-range`, or the whole. Throws InvalidArgument for a range beyond it. */
async function openSource(call: S3Call, services: Services): Promise<{ source: OpenedObject; range: ByteRange }> {
  const name = await copySource(call, services)
  const range = rangeOf(call)
  const source = await openObject(services.db, name, { bytes: range })
  if (!source) throw noSuchKey(name.key)
  demandCopySource(call.request.header, source.object)
  const { size } = source.object
  if (range && range.to >= size) throw wrongRange()
  return { source, range: range ?? { from: 0, to: size - 1 } }
}

/** `x-amz-copy-source-range`: `bytes=first-last`; undefined without it. Throws InvalidArgument. */
function rangeOf(call: S3Call): ByteRange | undefined {
  const header = headerOf(call, 'x-amz-copy-source-range')
  if (header === undefined) return undefined
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header.trim()) ?? []
  const range = { from: Number(first), to: Number(last) }
  if (first === undefined || range.to < range.from) throw wrongRange()
  return range
}

const wrongRange = () =>
  new S3Error('InvalidArgument', 'x-amz-copy-source-range must be bytes=first-last, both within the source.')

type Shared = Pick<NewUploadPart, 'segmentId' | 'body'>

/** The whole segment that a range is, with its facts; undefined when it is several, or a piece of one. */
function sharedSegment({ parts }: OpenedObject, { from, to }: ByteRange): Shared | undefined {
  const part = parts.find(({ startsAt, length }) => startsAt === from && length === to - from + 1)
  if (!part?.md5 || part.segmentFrom !== 0 || part.length !== part.segmentSize) return undefined
  // Without the SHA-256, which is not needed: `shared` adds a reference to a segment whose facts are stored.
  return { segmentId: part.segmentId, body: { size: part.length, md5: part.md5, sha256: '' } }
}

/** No byte moves, but it takes the account's locks, as a part that is sent. */
async function share(part: NewUploadPart, call: S3Call, services: Services): Promise<NewUploadPart> {
  await inUploadSlot(call, services, () => storePart(part, call, services))
  return part
}

interface CopiedRange {
  source: OpenedObject
  range: ByteRange
  /** Of the checksum that the part must have. */
  algorithm: ChecksumAlgorithm | undefined
}

async function copyBytes(
  part: Pick<NewUploadPart, 'uploadId' | 'part'>,
  { source, range, algorithm }: CopiedRange,
  call: S3Call,
  services: Services,
): Promise<NewUploadPart> {
  const { exchange, stored, caller } = call
  return inUploadSlot(call, services, async () => {
    // Within the slot: a part that finds none has copied nothing.
    await countS3(caller, services, { of: 'copiedMiB', times: Math.ceil((range.to - range.from + 1) / MiB) })
    const { object, parts } = source
    const whole = range.to < range.from ? null : range
    const opened = await openBody(services.store, { size: object.size, parts }, whole, () => exchange.signal)
    const sum = algorithm && checksumFrom(algorithm)
    const body = Readable.from(copied(Buffer.isBuffer(opened) ? [opened] : opened, sum))
    const rules = {
      ownerId: caller.user.id,
      maxBytes: s3Limits.putBytes,
      tooLarge: 'FILE_TOO_LARGE',
      unstored: unavailableStorage(stored),
    } as const
    const arrived = await storeBody(body, services, rules, { signal: exchange.signal }).finally(() => body.destroy())
    return discardingOnFailure(services, arrived, async () => {
      await stillMayWrite(exchange, call.authorization.accessKeyId, services)
      const { segmentId, bytes: _, ...facts } = arrived
      const stored = { ...part, segmentId, body: facts, checksum: sum?.digest().toString('base64') }
      await storePart(stored, call, services)
      return stored
    })
  })
}

/** Borrowed pieces are valid until the next one, but a stream holds several. */
async function* copied(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  sum: Checksum | undefined,
): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    sum?.update(piece)
    yield Buffer.from(piece)
  }
}
