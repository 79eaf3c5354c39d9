import { z } from 'zod'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { copyObject as copyRow, moveObject } from '../../../db/objects/object-changes.ts'
import { findObject, type ObjectRow } from '../../../db/objects/objects.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertPaid } from '../../../policy/objects/blob-options.ts'
import { assertMayCopy, copyTarget } from '../../../policy/objects/object-copy.ts'
import { contentTypeOf } from '../../../policy/objects/object-types.ts'
import { assertWithin } from '../../../policy/objects/prefix-limits.ts'
import { expireField, nameField, prefixField } from '../../../policy/objects/uploads/upload-fields.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { isoTime, optional, withDefault } from '../../pipeline/fields.ts'
import { type InTransaction, idempotencyErrors, oncePerKey, requestOf } from '../../pipeline/idempotent.ts'
import { mapUnexpectedError } from '../../pipeline/unexpected-errors.ts'
import type { Services } from '../../services.ts'
import { assertReserved, retryingOutgrown, withReservedStorage } from '../../uploads/storage-charge.ts'
import { expiryView, placeView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { objectField, ownName, ownObjectErrors } from './own-object.ts'

const yesOrNo = z.boolean({ error: 'INVALID_DESTINATION' })

const copyBody = z.object({
  source: objectField,
  destination: z.object(
    {
      name: nameField,
      prefix: optional(prefixField),
      private: optional(yesOrNo),
      /** Null: never, even if the source expires. */
      expire: expireField.nullable().optional(),
      security_hash: optional(yesOrNo),
    },
    { error: 'INVALID_DESTINATION' },
  ),
  move: withDefault(false, yesOrNo),
  overwrite: withDefault(false, yesOrNo),
})

const copiedObject = z.object({
  id: z.string(),
  private: z.boolean(),
  url: z.string().nullable(),
  expires_at: isoTime.optional(),
  size: z.int(),
  source: z.string(),
  moved: z.boolean(),
  replaced: z.boolean(),
})
type View = z.input<typeof copiedObject>

const path = '/v1/objects/copy'

/** Contract 7.19. No bytes are copied: a copy refers to the same segments and counts against the storage; a move changes the name. */
export const copyObject = blobEndpoint({
  name: 'objects.copy',
  method: 'POST',
  path,
  summary: 'Copy, move or rename an object',
  auth: { scope: 'blob:write' },
  body: copyBody,
  response: copiedObject,
  errors: [
    ...ownObjectErrors,
    ...idempotencyErrors,
    'PERMISSION_DENIED',
    'UPGRADE_REQUIRED',
    'INVALID_OBJECT_NAME',
    'INVALID_OBJECT_PREFIX',
    'INVALID_OBJECT_EXPIRE',
    'INVALID_OBJECT_SECURITY_HASH',
    'BLOCKED_FILE_TYPE',
    'INVALID_DESTINATION',
    'PREFIX_REQUIRED',
    'SAME_OBJECT',
    'STORAGE_QUOTA_EXCEEDED',
    'OBJECT_ALREADY_EXISTS',
    'COPY_FAILED',
  ],
  async handle({ caller, body, exchange }, services) {
    assertPaid(caller.planName)
    exchange.resource = body.source
    const call = { caller, body, exchange }
    return oncePerKey<View>(call, requestOf(call, `POST ${path}`), services.db, inTransaction =>
      mapUnexpectedError('COPY_FAILED', services, () =>
        retryingOutgrown(new CodedError('COPY_FAILED'), () => copied(body, caller, services, inTransaction)),
      ),
    )
  },
})

async function copied(
  { source: id, destination, move, overwrite }: z.output<typeof copyBody>,
  caller: Caller,
  services: Services,
  inTransaction: InTransaction<View>,
): Promise<View> {
  const { db, config } = services
  const from = ownName(id, caller)
  assertWithin(caller.prefixes, destination.prefix ? `${destination.prefix}/` : '')
  const source = await findObject(db, from)
  if (!source) throw new CodedError('OBJECT_NOT_FOUND')
  assertMayCopy(destination, caller.planName)
  const { name: to, expiresAt, contentType } = copyTarget(from, source.expires_at, destination, new Date())
  // A copy keeps its type (contract 7.20); an object of unknown type gets that of its new name.
  const isUnknown = source.content_type === contentTypeOf('')
  const changes = { expiresAt, contentType: isUnknown ? contentType : undefined }
  const replacing = overwrite ? await findObject(db, to) : undefined
  const bytes = move ? { size: 0, replaced: 0 } : { size: source.size, replaced: replacing?.size ?? null }
  const reserved = (locked: ObjectRow) => {
    assertReserved(locked.size, source.size)
    return changes
  }
  const { answer } = await withReservedStorage(services, caller, bytes, charge =>
    inTransaction(
      async trx => {
        const stored = await (move
          ? moveObject(trx, from, to, { overwrite, changes })
          : copyRow(trx, from, to, { overwrite, charge, changes: reserved }))
        if (!stored) throw new CodedError('OBJECT_NOT_FOUND')
        const { object, replaced } = stored
        const place = { ...placeView(object, config.urls.public), ...expiryView(object) }
        return { answer: { ...place, size: object.size, source: id, moved: move, replaced } }
      },
      work => ownTransaction(db, caller.user.id, work),
    ),
  )
  return answer
}
