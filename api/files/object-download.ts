import type { OpenedObject } from '../../db/objects/manifests.ts'
import type { Services } from '../services.ts'
import { openBody } from './object-body.ts'
import type { Sendable } from './send-body.ts'

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
