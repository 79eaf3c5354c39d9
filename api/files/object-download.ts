import type { Db } from '../../db/database.ts'
import type { OpenedObject } from '../../db/objects/manifests.ts'
import { findObject, openObject } from '../../db/objects/objects.ts'
import { portionOf } from '../../lib/preconditions.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Services } from '../services.ts'
import { openBody } from './object-body.ts'
import type { Sendable } from './send-body.ts'

/**
 * An object for the answer to a GET or HEAD. Where conditions and method say that no byte is sent, the row is enough: a manifest may have
 * 10,000 parts. `parts` is empty then.
 */
export async function openForAnswer(
  { request: { method, headers } }: Pick<Exchange, 'request'>,
  db: Db,
  name: ObjectName,
): Promise<OpenedObject | undefined> {
  const isHead = method === 'HEAD'
  if (!isHead && !conditions.some(header => headers[header] !== undefined)) return openObject(db, name)
  const object = await findObject(db, name)
  if (!object) return undefined
  const { status } = portionOf(method, headers, { ...object, modified: object.created_at })
  return isHead || status >= 300 ? { object, parts: [] } : openObject(db, name)
}

const conditions = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']

/** An object in the form that `sendBody` sends, with the headers of the route by which it is accessed. */
export function sendableObject(
  { object, parts }: OpenedObject,
  { store }: Services,
  headers: Record<string, string>,
): Sendable {
  return {
    size: object.size,
    etag: object.etag,
    modified: object.created_at,
    headers,
    open: (range, signal) => openBody(store, { size: object.size, parts }, range, signal),
  }
}
