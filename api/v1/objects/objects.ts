import { z } from 'zod'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { removeObjects } from '../../../db/objects/object-removal.ts'
import { CodedError } from '../../../policy/errors.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { mapUnexpectedError } from '../../pipeline/unexpected-errors.ts'
import type { Services } from '../../services.ts'
import { idOf, objectInfoView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { countObjects, namedForms, namedIds, namedObjects, namedObjectsErrors } from './named-objects.ts'
import { objectField, ownName, ownObject, ownObjectErrors } from './own-object.ts'

const text = z.string()

/** Contract 7.10. */
export const getObject = blobEndpoint({
  name: 'objects.info',
  method: 'GET',
  path: '/v1/objects/info',
  summary: 'Show an object',
  auth: { scope: 'blob:read' },
  query: z.object({ object: objectField }),
  response: z.object({
    id: text,
    size: z.int(),
    content_type: text,
    etag: text,
    created_at: isoTime,
    expires_at: isoTime.nullable(),
    private: z.boolean(),
    url: text.nullable(),
    cache_control: text.nullable(),
    content_disposition: text.nullable(),
    original_name: text.nullable(),
    metadata: z.record(text, text),
    legacy: z.boolean(),
  }),
  errors: ownObjectErrors,
  async handle({ caller, query }, { db, config }) {
    return objectInfoView(await ownObject(db, query.object, caller), config.urls.public)
  },
})

const deletion = z.object({
  deleted: z.array(text),
  not_found: z.array(text),
  failed: z.array(z.object({ id: text, code: z.enum(['INVALID_OBJECT', 'PREFIX_NOT_ALLOWED']) })),
})
type Deletion = z.input<typeof deletion>

/** Contract 7.16: one object is deleted or OBJECT_NOT_FOUND; for several the answer lists the results. Final; segments are swept later. */
export const deleteObjects = blobEndpoint({
  name: 'objects.delete',
  method: 'DELETE',
  path: '/v1/objects',
  summary: 'Delete objects',
  auth: { scope: 'blob:write' },
  body: z.object(namedObjects).meta({ choices: [namedForms(requestCaps.objectsDeleted)] }),
  response: deletion.optional(),
  errors: [...namedObjectsErrors, ...ownObjectErrors, 'DELETE_FAILED'],
  async handle({ caller, body, exchange }, services) {
    const ids = namedIds(body, requestCaps.objectsDeleted)
    await countObjects('delete', ids.length, caller, services)
    const result = await mapUnexpectedError('DELETE_FAILED', services, () =>
      removeAll([...new Set(ids)], caller, services),
    )
    if (ids.length > 1) return result
    exchange.resource = ids[0]
    const code = result.failed[0]?.code ?? (result.deleted.length === 0 ? 'OBJECT_NOT_FOUND' : undefined)
    if (code) throw new CodedError(code)
    return undefined
  },
})

async function removeAll(ids: readonly string[], caller: Caller, { db }: Services): Promise<Deletion> {
  const failed: Deletion['failed'] = []
  const names = ids.flatMap(id => {
    try {
      return [ownName(id, caller)]
    } catch (refusal) {
      // `ownName` throws nothing else.
      failed.push({ id, code: (refusal as CodedError).code as Deletion['failed'][number]['code'] })
      return []
    }
  })
  const rows = names.length > 0 ? await ownTransaction(db, caller.user.id, trx => removeObjects(trx, names)) : []
  const deleted = new Set(rows.map(idOf))
  const valid = names.map(objectId)
  return { deleted: valid.filter(id => deleted.has(id)), not_found: valid.filter(id => !deleted.has(id)), failed }
}
