import { z } from 'zod'
import { listUploadParts } from '../../../db/objects/uploads/upload-parts.ts'
import { listOpenUploads, type UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { keyParts } from '../../../policy/objects/object-names.ts'
import { isKeyWithin } from '../../../policy/objects/prefix-limits.ts'
import { nextPart } from '../../../policy/objects/uploads/chunked.ts'
import { chunkedSecret, chunkedToken } from '../../../policy/objects/uploads/chunked-tokens.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { idOf } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { ownUpload, ownUploadErrors, uploadField } from './own-upload.ts'

const text = z.string()

/** Contract 7.33: the parts that have arrived, and the first one that has not. */
export const getChunkedUpload = blobEndpoint({
  name: 'chunked.status',
  method: 'GET',
  path: '/v1/objects/chunked',
  summary: 'Show the parts of a chunked upload',
  auth: { scope: 'blob:write' },
  query: z.object({ upload: uploadField }),
  response: z.object({
    id: text,
    parts: z.array(z.object({ part: z.int(), size: z.int(), etag: text })),
    next_part: z.int(),
    size_so_far: z.int(),
  }),
  errors: ownUploadErrors,
  async handle({ caller, query }, services) {
    const upload = await ownUpload(query.upload, caller, services)
    const stored = await listUploadParts(services.db, upload.id)
    return {
      id: idOf(upload),
      parts: stored.map(({ part, size, md5 }) => ({ part, size, etag: md5 })),
      next_part: nextPart(stored),
      size_so_far: stored.reduce((sum, { size }) => sum + size, 0),
    }
  },
})

const openItem = z.object({
  upload: text,
  id: text,
  name: text.optional(),
  prefix: text.optional(),
  private: z.boolean(),
  parts: z.int(),
  size_so_far: z.int(),
  created_at: isoTime,
  last_activity_at: isoTime,
})

/** Contract 7.34: oldest first, each with its token, so that a client that lost a token can continue or abort. */
export const listChunkedUploads = blobEndpoint({
  name: 'chunked.open',
  method: 'GET',
  path: '/v1/objects/chunked/open',
  summary: 'List open chunked uploads',
  auth: { scope: 'blob:write' },
  response: z.array(openItem),
  async handle({ caller }, { db, config }) {
    const secret = chunkedSecret(config.masterKey)
    const uploads = await listOpenUploads(db, caller.user.id)
    return uploads.filter(({ key }) => isKeyWithin(caller.prefixes, key)).map(upload => openView(upload, secret))
  },
})

function openView(upload: UploadRow, secret: Buffer): z.input<typeof openItem> {
  const { name, prefix } = keyParts(upload.key) ?? {}
  return {
    upload: chunkedToken(secret, upload.owner_id, upload.id),
    id: idOf(upload),
    name,
    prefix: prefix || undefined,
    private: upload.bucket === 'private',
    parts: upload.part_count,
    size_so_far: upload.part_bytes,
    created_at: upload.created_at.toISOString(),
    last_activity_at: upload.last_activity_at.toISOString(),
  }
}
