import { z } from 'zod'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError } from '../../../policy/errors.ts'
import { objectCounts } from '../../../policy/limits.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { checkedByEndpoint, optional } from '../../pipeline/fields.ts'
import type { Services } from '../../services.ts'

/** One object or several, in a body: `object` is an id, `objects` ids or one. */
export const namedObjects = {
  object: optional(z.string({ error: 'INVALID_OBJECT' })).meta(checkedByEndpoint),
  objects: optional(z.union([z.string(), z.array(z.string())], { error: 'INVALID_OBJECT' })).meta(checkedByEndpoint),
}

/** The forms in which a body may name them, for the OpenAPI document. An error in one of several objects is reported for that object. */
export function namedForms(max: number): object[] {
  const id = { type: 'string' }
  const several = { anyOf: [id, { type: 'array', items: id, minItems: 1, maxItems: max }] }
  return [
    { properties: { object: id, objects: { type: 'null' } }, required: ['object'] },
    { properties: { objects: several }, required: ['objects'] },
  ]
}

interface Named {
  object?: string
  objects?: string | string[]
}

/** Codes that `namedIds` and `countObjects` throw. */
export const namedObjectsErrors = ['INVALID_OBJECT', 'TOO_MANY_OBJECTS'] as const

/** The ids in a body, in its order. Throws INVALID_OBJECT for none, TOO_MANY_OBJECTS for more than `max`. */
export function namedIds({ object, objects = object }: Named, max: number): string[] {
  const ids = typeof objects === 'string' ? [objects] : (objects ?? [])
  if (ids.length === 0) throw new CodedError('INVALID_OBJECT')
  if (ids.length > max) throw new CodedError('TOO_MANY_OBJECTS', `A request must name at most ${max} objects.`)
  return ids
}

/** Counts every object that a request names (contract 9.4). Throws KEEP_CALM. */
export async function countObjects(
  verb: keyof typeof objectCounts,
  objects: number,
  { user, plan }: Caller,
  { limiter, config }: Services,
): Promise<void> {
  const subject = { user: { id: user.id, plan }, scale: config.rateLimitScale }
  await limiter.admit(ownCounters(`objects.${verb}.each`, objectCounts[verb], subject), objects)
}
