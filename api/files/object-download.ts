import type { Db } from '../../db/database.ts'
import type { OpenedObject } from '../../db/objects/manifests.ts'
import { openObject, openWithoutParts } from '../../db/objects/objects.ts'
import { portionOf } from '../../lib/preconditions.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Services } from '../services.ts'
import { openBody } from './object-body.ts'
import type { Sendable } from './send-body.ts'

/**
 * An object for the answer to a request, with the parts that are sent: all, those of a range, or none, where method, conditions or range
 * say that no byte is. A manifest may have 10,000 parts, which take a tenth of a second.
 */
export async function openForAnswer(
  { request: { method, headers } }: Pick<Exchange, 'request'>,
  db: Db,
  name: ObjectName,
): Promise<OpenedObject | undefined> {
  const sends = method === 'GET'
  if (sends && !deciding.some(header => headers[header] !== undefined)) return openObject(db, name)
  const facts = await openWithoutParts(db, name)
  if (!facts) return undefined
  const { object } = facts
  const { status, range } = portionOf(method, headers, { ...object, modified: object.created_at })
  if (!sends || status >= 300) return facts
  if (!range) return openObject(db, name)
  const opened = await openObject(db, name, { bytes: range })
  // An object that replaced it meanwhile may have another range, or none.
  return opened && opened.object.generation !== object.generation ? openObject(db, name) : opened
}

/** Headers without which a GET is answered with the whole. */
const deciding = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'range']

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
