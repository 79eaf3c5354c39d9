import { z } from 'zod'
import { asWritten } from '../../../lib/shown-names.ts'
import { authorityRules } from '../../../policy/domains/authority-rules.ts'
import type { Authorization, OrderStatus, Problem } from '../port.ts'

const problem = z.object({
  type: z.string().optional(),
  detail: z.string().optional(),
  subproblems: z
    .array(z.object({ detail: z.string().optional() }))
    .optional()
    .catch(undefined),
})
export type ProblemDocument = unknown

/** A problem document (RFC 7807) in bounds: the last part of its type, and its sentence. Both are empty for what is none. */
export function problemOf(body: ProblemDocument): Problem {
  const { data } = problem.safeParse(body)
  const code = /^urn:ietf:params:acme:error:([A-Za-z]{1,40})$/.exec(data?.type ?? '')?.[1] ?? ''
  const details = [data?.detail, ...(data?.subproblems ?? []).map(({ detail }) => detail)].filter(Boolean).join(' ')
  return { code, message: asWritten(details.replaceAll('\n', ' ')).slice(0, authorityRules.messageCharacters) }
}

/** `Retry-After` in milliseconds; null when it is missing or in the past. */
export function retryAfterMs(header: string | undefined, now = Date.now()): number | null {
  if (header === undefined) return null
  const ms = /^\d{1,8}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now
  return ms > 0 ? ms : null
}

const url = z.url({ protocol: /^https$/ })
/** The documents of an authority, as far as we use them. */
export const documents = {
  directory: z.object({
    newOrder: url,
    renewalInfo: url.optional(),
    meta: z.object({ caaIdentities: z.array(z.string().max(253)).max(20).optional() }).optional(),
  }),
  order: z.object({
    status: z.enum(['pending', 'ready', 'processing', 'valid', 'invalid']) satisfies z.ZodType<OrderStatus>,
    expires: z.string().optional(),
    finalize: url,
    authorizations: z.array(url).max(100),
    certificate: url.optional(),
    error: z.unknown().optional(),
  }),
  authorization: z.object({
    status: z.enum(['pending', 'valid', 'invalid', 'deactivated', 'expired', 'revoked']),
    identifier: z.object({ value: z.string().max(253) }),
    wildcard: z.boolean().optional(),
    challenges: z
      .array(
        z.object({
          type: z.string(),
          url: url,
          token: z.string().default(''),
          status: z.string(),
          error: z.unknown().optional(),
        }),
      )
      .max(20),
  }),
  renewal: z.object({ suggestedWindow: z.object({ start: z.coerce.date(), end: z.coerce.date() }) }),
}

export type AuthorizationDocument = z.infer<typeof documents.authorization>

/** What is over without success counts as invalid. */
export const authorizationStatus = ({ status }: AuthorizationDocument): Authorization['status'] =>
  status === 'pending' || status === 'valid' ? status : 'invalid'

/** Why an order is invalid: the first refused challenge says it best. */
export function orderProblem(error: unknown, authorizations: readonly AuthorizationDocument[]): Problem | null {
  const refused = authorizations.flatMap(({ challenges, identifier }) =>
    challenges.flatMap(challenge =>
      challenge.error ? [{ ...problemOf(challenge.error), hostname: identifier.value }] : [],
    ),
  )[0]
  if (refused)
    return { code: refused.code || 'unknown', message: refused.message || `${refused.hostname} was not validated.` }
  if (!error) return null
  const { code, message } = problemOf(error)
  return { code: code || 'unknown', message: message || 'The authority gave no reason.' }
}
