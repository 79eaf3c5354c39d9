import { z } from 'zod'
import type { ObjectRow } from '../../../db/objects/objects.ts'
import { fileName, someOfFileName } from '../../../policy/objects/object-headers.ts'
import { linkToken } from '../../../policy/objects/object-links.ts'
import { dispositionField } from '../../../policy/objects/uploads/upload-fields.ts'
import { linkTerms } from '../../../policy/request-caps.ts'
import { send, streamed } from '../../http/respond.ts'
import { flagWithDefault, isoTime } from '../../pipeline/fields.ts'
import type { Services } from '../../services.ts'
import { placeView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { objectField, ownObject, ownObjectErrors } from './own-object.ts'

const code = 'INVALID_DOWNLOAD_EXPIRES'

/** Lifetime of a link in seconds. */
const lifetime = linkTerms.downloadSeconds
const expires = z
  .string({ error: code })
  .regex(/^\d{1,6}$/, code)
  .transform(Number)
  .refine(seconds => seconds >= lifetime.min && seconds <= lifetime.max, code)
  .meta({ openapi: { type: 'integer', minimum: lifetime.min, maximum: lifetime.max, default: lifetime.default } })

const filename = z.string({ error: 'INVALID_FILENAME' }).regex(someOfFileName, 'INVALID_FILENAME').transform(fileName)

const query = z.object({
  object: objectField,
  expires: expires.optional(),
  redirect: flagWithDefault(true),
  disposition: dispositionField.optional(),
  filename: filename.optional(),
})

/**
 * Contract 7.23: the public address of a public file, else a temporary link. A request for another name or disposition gets a link in
 * any case.
 */
export const downloadObject = blobEndpoint({
  name: 'objects.download',
  method: 'GET',
  path: '/v1/objects/download',
  summary: 'Get an address to download an object from',
  auth: { scope: 'blob:read' },
  query,
  redirects: 'Redirects to the address, unless `redirect=false`.',
  response: z.object({
    url: z.string(),
    expires_at: isoTime.nullable(),
    private: z.boolean(),
    size: z.int(),
    content_type: z.string(),
  }),
  errors: [...ownObjectErrors, code, 'INVALID_OBJECT_DISPOSITION', 'INVALID_FILENAME'],
  async handle({ caller, query, exchange }, services) {
    const object = await ownObject(services.db, query.object, caller)
    const { url, expiresAt } = addressOf(object, query, services)
    if (query.redirect) {
      const headers = { Location: url, 'Cache-Control': 'no-store' }
      send(exchange.response, { status: 302, headers }, exchange.requestId)
      return streamed
    }
    return {
      url,
      expires_at: expiresAt?.toISOString() ?? null,
      private: object.bucket === 'private',
      size: object.size,
      content_type: object.content_type,
    }
  },
})

type DownloadQuery = z.output<typeof query>

function addressOf(
  object: ObjectRow,
  { expires = lifetime.default, disposition, filename }: DownloadQuery,
  { config }: Services,
) {
  const { id, url } = placeView(object, config.urls.public)
  if (url && !disposition && !filename) return { url, expiresAt: null }
  const requestedEnd = Math.floor(Date.now() / 1000) + expires
  // A link must not outlive its object.
  const end = Math.min(requestedEnd, Math.floor((object.expires_at?.getTime() ?? Number.POSITIVE_INFINITY) / 1000))
  const token = linkToken(config.sealKeys, {
    id,
    birth: object.birth,
    expires: end,
    disposition: disposition ?? null,
    filename: filename ?? null,
  })
  return { url: `${config.urls.files}/d/${token}`, expiresAt: new Date(end * 1000) }
}
