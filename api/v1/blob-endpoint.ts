import type { z } from 'zod'
import type { Auth } from '../pipeline/access.ts'
import { type Definition, type Endpoint, endpoint } from '../pipeline/endpoint.ts'

/** An endpoint of the blob API, whose refusals have the names and statuses of that wire. */
export function blobEndpoint<
  const A extends Auth,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodObject = z.ZodObject<Record<never, never>>,
  R extends z.ZodType = z.ZodUndefined | z.ZodVoid,
>(definition: Definition<A, Q, B, R>): Endpoint {
  return endpoint<A, Q, B, R>({ ...definition, wire: 'blob' })
}
