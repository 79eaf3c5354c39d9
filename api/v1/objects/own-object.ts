import { z } from 'zod'
import type { Db } from '../../../db/database.ts'
import { findObject, type ObjectRow } from '../../../db/objects/objects.ts'
import { CodedError } from '../../../policy/errors.ts'
import { idForm, keyBytes, type ObjectName, objectName } from '../../../policy/objects/object-names.ts'
import { assertWithin } from '../../../policy/objects/prefix-limits.ts'
import type { Caller } from '../../pipeline/authenticate.ts'

/** The id of an object, in a query or body. */
export const objectField = z
  .string({ error: 'INVALID_OBJECT' })
  .regex(idForm, 'INVALID_OBJECT')
  .refine(id => objectName(id) !== undefined, 'INVALID_OBJECT')
  .meta({ description: `The part after the account must be at most ${keyBytes} bytes.`, 'x-maxBytes': keyBytes })

/** Codes that `ownObject` throws. */
export const ownObjectErrors = ['INVALID_OBJECT', 'OBJECT_NOT_FOUND', 'PREFIX_NOT_ALLOWED'] as const

/** The name in an id of the caller's own object. Malformed and foreign ids are the same INVALID_OBJECT; throws PREFIX_NOT_ALLOWED too. */
export function ownName(id: string, { user, prefixes }: Caller): ObjectName {
  const name = objectName(id)
  if (name?.ownerId !== user.id) throw new CodedError('INVALID_OBJECT')
  assertWithin(prefixes, name.key)
  return name
}

/** The caller's own object with this id. */
export async function ownObject(db: Db, id: string, caller: Caller): Promise<ObjectRow> {
  const object = await findObject(db, ownName(id, caller))
  if (!object) throw new CodedError('OBJECT_NOT_FOUND')
  return object
}
