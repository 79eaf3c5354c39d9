import { listOpenS3Uploads, type OpenS3Upload } from '../../../db/objects/uploads/s3-uploads.ts'
import { successor } from '../../../policy/objects/key-ranges.ts'
import { assertWithin, isKeyWithin } from '../../../policy/objects/prefix-limits.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { ownerElements, xmlReply } from '../answers.ts'
import type { Operation } from '../operation.ts'
import { keyEncoding, keyQuery, pageSize } from '../pages.ts'

/** Above every id of an upload. */
const lastId = 'g'

/** Open uploads by key. An account has at most 1,000, so all of them are read, and folded here. */
export const listMultipartUploads: Operation = {
  name: 'ListMultipartUploads',
  method: 'GET',
  target: 'bucket',
  query: ['uploads'],
  support: 'supported',
  needs: 'read',
  async handle(call, { db }) {
    const { caller, stored, bucket } = call
    const [prefix, delimiter, keyMarker] = [
      keyQuery(call, 'prefix'),
      keyQuery(call, 'delimiter'),
      keyQuery(call, 'key-marker'),
    ]
    const idMarker = keyMarker === '' ? '' : keyQuery(call, 'upload-id-marker')
    if (prefix !== '') assertWithin(caller.prefixes, prefix)
    const encoding = keyEncoding(call)
    const size = pageSize(call, 'max-uploads')
    const range = { ownerId: caller.user.id, bucket: stored, from: prefix, to: successor(prefix) }
    // Without the id of an upload, all uploads of the marked key have been listed.
    const after = { key: keyMarker, id: idMarker || (keyMarker === '' ? '' : lastId) }
    const uploads = await listOpenS3Uploads(db, { ...range, after, limit: s3Limits.openUploads })
    const own = uploads.filter(({ key }) => isKeyWithin(caller.prefixes, key))
    const entries = folded(own, { prefix, delimiter, after: keyMarker })
    const page = entries.slice(0, size)
    const last = page.at(-1)
    const owner = ownerElements(caller)
    return xmlReply('ListMultipartUploadsResult', {
      Bucket: bucket,
      KeyMarker: encoding.of(keyMarker),
      UploadIdMarker: idMarker,
      NextKeyMarker: last && encoding.of(last.folder ?? last.upload.key),
      NextUploadIdMarker: last && (last.folder === null ? last.upload.id : ''),
      Prefix: encoding.of(prefix),
      Delimiter: delimiter === '' ? undefined : encoding.of(delimiter),
      EncodingType: encoding.type,
      MaxUploads: size,
      IsTruncated: size > 0 && page.length < entries.length,
      Upload: page
        .filter(({ folder }) => folder === null)
        .map(({ upload }) => ({
          Key: encoding.of(upload.key),
          UploadId: upload.id,
          Initiator: owner,
          Owner: owner,
          StorageClass: 'STANDARD',
          Initiated: upload.created_at,
          ChecksumAlgorithm: upload.s3?.checksum?.algorithm,
          ChecksumType: upload.s3?.checksum?.type,
        })),
      CommonPrefixes: page
        .filter(({ folder }) => folder !== null)
        .map(({ folder }) => ({ Prefix: encoding.of(folder!) })),
    })
  },
}

interface Entry {
  upload: OpenS3Upload
  /** The key up to the delimiter, which stands for all uploads below it. */
  folder: string | null
}

function folded(
  uploads: readonly OpenS3Upload[],
  { prefix, delimiter, after }: { prefix: string; delimiter: string; after: string },
): Entry[] {
  const entries: Entry[] = []
  for (const upload of uploads) {
    const at = delimiter === '' ? -1 : upload.key.indexOf(delimiter, prefix.length)
    const folder = at === -1 ? null : upload.key.slice(0, at + delimiter.length)
    const isListed = folder !== null && (folder === entries.at(-1)?.folder || folder === after)
    if (!isListed) entries.push({ upload, folder })
  }
  return entries
}
