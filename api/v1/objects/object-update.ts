import { z } from 'zod'
import { CommitInDoubt } from '../../../db/commits-in-doubt.ts'
import type { Db } from '../../../db/database.ts'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { changeObject, moveObject } from '../../../db/objects/object-changes.ts'
import { findObject, lockNames, type ObjectRow } from '../../../db/objects/objects.ts'
import { CodedError, codeOn, type ErrorCode } from '../../../policy/errors.ts'
import { type ObjectName, objectName } from '../../../policy/objects/object-names.ts'
import {
  assertMayUpdate,
  assertUpdatedName,
  metadataChangeShown,
  type ObjectUpdate,
  possibleNames,
  updatedExpiry,
  updatedMetadata,
  updatedName,
} from '../../../policy/objects/object-update.ts'
import {
  cacheControlField,
  dispositionField,
  expireField,
  isMetadataChange,
} from '../../../policy/objects/uploads/upload-fields.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import { toCodedError } from '../../http/respond.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { mapUnexpectedError } from '../../pipeline/unexpected-errors.ts'
import type { Services } from '../../services.ts'
import { placeView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { countObjects, namedForms, namedIds, namedObjects, namedObjectsErrors } from './named-objects.ts'
import { ownName } from './own-object.ts'

/** Codes for one object of several. */
const objectCodes = [
  'INVALID_OBJECT',
  'INVALID_INPUT',
  'PREFIX_NOT_ALLOWED',
  'PERMISSION_DENIED',
  'UPGRADE_REQUIRED',
  'OBJECT_IS_LEGACY',
  'OBJECT_NOT_FOUND',
  'OBJECT_ALREADY_EXISTS',
  'INVALID_OBJECT_METADATA',
  'UPDATE_FAILED',
  'VISIBILITY_CHANGE_FAILED',
  'PRIVATE_STORAGE_UNAVAILABLE',
  'PUBLIC_STORAGE_UNAVAILABLE',
  'RATE_LIMITED',
] as const satisfies readonly ErrorCode[]
type ObjectCode = (typeof objectCodes)[number]

const result = z.union([
  z.object({
    object: z.string(),
    ok: z.literal(true),
    changed: z.boolean(),
    id: z.string(),
    private: z.boolean(),
    url: z.string().nullable(),
    size: z.int(),
    expires_at: isoTime.nullable(),
  }),
  z.object({ object: z.string(), ok: z.literal(false), code: z.enum(objectCodes) }),
])
type Result = z.input<typeof result>

const changes = {
  private: z.boolean({ error: 'INVALID_OBJECT_PRIVATE' }).optional(),
  expire: expireField.nullable().optional(),
  cache_control: cacheControlField.nullable().optional(),
  disposition: dispositionField.nullable().optional(),
  metadata: z
    .custom<Record<string, string | null>>(isMetadataChange, 'INVALID_OBJECT_METADATA')
    .meta({ openapi: metadataChangeShown })
    .nullable()
    .optional(),
}

/** Contract 7.17: 200 if the body is valid, with one result per object, in its order; 503 if one of them is in doubt. */
export const updateObjects = blobEndpoint({
  name: 'objects.update',
  method: 'PATCH',
  path: '/v1/objects',
  summary: 'Change visibility, expiry, headers and metadata of objects',
  auth: { scope: 'blob:write' },
  namesAreData: true,
  body: z
    .object({
      ...namedObjects,
      ...changes,
    })
    .meta({
      choices: [namedForms(requestCaps.objectsUpdated), Object.keys(changes).map(field => ({ required: [field] }))],
    }),
  response: z.object({ results: z.array(result) }),
  errors: [
    ...namedObjectsErrors,
    'NOTHING_TO_UPDATE',
    'INVALID_OBJECT_PRIVATE',
    'INVALID_OBJECT_EXPIRE',
    'INVALID_OBJECT_CACHE_CONTROL',
    'INVALID_OBJECT_DISPOSITION',
    'INVALID_OBJECT_METADATA',
  ],
  async handle({ caller, body, exchange }, services) {
    const { object, objects, ...update } = body
    const ids = namedIds({ object, objects }, requestCaps.objectsUpdated)
    if (Object.values(update).every(value => value === undefined)) throw new CodedError('NOTHING_TO_UPDATE')
    await countObjects('update', ids.length, caller, services)
    // An id that no object can have may be as long as the body, so the audit record does not store it.
    if (ids.length === 1 && objectName(ids[0]!)) exchange.resource = ids[0]
    const results: Result[] = []
    for (const id of ids) results.push(await resultOf(id, update, caller, services))
    return { results }
  },
})

async function resultOf(id: string, update: ObjectUpdate, caller: Caller, services: Services): Promise<Result> {
  try {
    const name = ownName(id, caller)
    assertMayUpdate(update, caller.planName)
    // It says that the object is still public.
    const isHidden = update.private === true && name.bucket !== 'private'
    const failure = isHidden ? 'VISIBILITY_CHANGE_FAILED' : 'UPDATE_FAILED'
    const after = await mapUnexpectedError(failure, services, () =>
      ownTransaction(services.db, caller.user.id, trx => updated(trx, name, update)),
    )
    const place = placeView(after, services.config.urls.public)
    const expires_at = after.expires_at?.toISOString() ?? null
    return { object: id, ok: true, changed: place.id !== id, ...place, size: after.size, expires_at }
  } catch (thrown) {
    // No code of one object says that it may have been changed; the answer as a whole does.
    if (thrown instanceof CommitInDoubt) throw thrown
    return { object: id, ok: false, code: saidOf(id, codeOn('blob', toCodedError(thrown).code)) }
  }
}

/** Others of the request may have been changed already, so that also an outage is said of one object: of where that lies. */
function saidOf(id: string, code: ErrorCode): ObjectCode {
  if (code !== 'DATABASE_UNAVAILABLE') return code as ObjectCode
  return id.startsWith('prv/') ? 'PRIVATE_STORAGE_UNAVAILABLE' : 'PUBLIC_STORAGE_UNAVAILABLE'
}

/** The object after all of an update, or as it was. Throws the codes of one object. */
async function updated(trx: Db, from: ObjectName, update: ObjectUpdate): Promise<ObjectRow> {
  const expiresAt = updatedExpiry(update, new Date())
  await lockNames(trx, [from, ...possibleNames(from, update, expiresAt)])
  const before = await findObject(trx, from)
  if (!before) throw new CodedError('OBJECT_NOT_FOUND')
  const to = updatedName(from, update, before.expires_at, expiresAt)
  assertUpdatedName(to)
  const changes = {
    cacheControl: update.cache_control,
    contentDisposition: update.disposition,
    metadata: updatedMetadata(before.metadata, update),
    expiresAt: sameTime(before.expires_at, expiresAt) ? undefined : expiresAt,
  }
  const stays = to.bucket === from.bucket && to.key === from.key
  if (stays && Object.values(changes).every(value => value === undefined)) return before
  const after = stays ? await changeObject(trx, from, changes) : (await moveObject(trx, from, to, { changes }))?.object
  if (!after) throw new CodedError('OBJECT_NOT_FOUND')
  return after
}

const sameTime = (a: Date | null, b: Date | null | undefined): boolean =>
  b !== undefined && a?.getTime() === b?.getTime()
