import type { z } from 'zod'
import type { AppRow } from '../../db/apps/apps.ts'
import type { DatabaseRow } from '../../db/databases/database-rows.ts'
import type { Role } from '../../policy/accounts/permissions.ts'
import { closedToLimitedKeys } from '../../policy/accounts/scopes.ts'
import { type CodedError, codeOn, type ErrorCode, type Wire } from '../../policy/errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { JsonText, Reply } from '../http/respond.ts'
import type { Services } from '../services.ts'
import type { Auth, NamedResource } from './access.ts'
import type { Caller } from './authenticate.ts'
import type { Counting } from './limiter.ts'

/** What an endpoint receives: the caller, the application or database of the path, and the input. */
export interface Call<A extends Auth = Auth, Query = unknown, Body = unknown> {
  caller: A extends 'public' ? undefined : Caller
  app: A extends { permission: string } ? AppRow : undefined
  role: A extends { permission: string } ? Role : undefined
  database: A extends { database: true } ? DatabaseRow : undefined
  query: Query
  body: Body
  exchange: Exchange
  counting: A extends 'public' ? undefined : Counting
}

export interface Definition<A extends Auth, Q extends z.ZodObject, B extends z.ZodObject, R extends z.ZodType> {
  /** Noun and verb; the row of `policy/limits.ts` has the same name, and the OpenAPI operation too. */
  name: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Decides the names and statuses of its refusals; default: the management wire. */
  wire?: Wire
  /** With parameters in braces: `/v2/apps/{appId}`. */
  path: string
  summary: string
  auth: A
  /** Throws unless the caller's credential and plan allow the request; called before the body is read. */
  checkCaller?(caller: Caller): void
  query?: Q
  /** A JSON body. A field with its own error code carries it as the schema's `error`. */
  body?: B
  /** A body that `handle` reads itself, as a stream: its media type, and the schema of its parts. */
  upload?: { mediaType: string; parts: z.ZodObject; maxBytes: number; tooLarge: ErrorCode }
  maxBodyBytes?: number
  /** True: callers choose names of fields, so `__proto__` is kept like any other instead of being dropped. */
  namesAreData?: true
  /** True: `content`, or its alias `buffer`, is a file; the schema sees its bytes, in whichever form they were sent. */
  holdsFile?: true
  /** The value in the field `response` of the envelope; without it the envelope has only `status`. */
  response?: R
  /** The `code` of the value also appears next to `status`, where existing clients expect it. */
  codeAlongside?: true
  /** The status of success; default 200. */
  success?: 201
  /** False: there is no envelope. `handle` returns the whole reply, or with `response` the value that is the body. */
  envelope?: false
  /** The answer is a stream of events, or may be one if there is an envelope too; `handle` writes it itself. `events` describes them. */
  stream?: { events: string; resumes?: true }
  /** Where a 302 leads, if the endpoint answers with one; `handle` writes it itself. */
  redirects?: string
  /** True: it starts an operation; its answers carry the id as X-Operation-Id. */
  operation?: true
  /** True: no budget counts it and no country is blocked (contract 1.15). Programs of a provider call it, with a limit of its own. */
  uncounted?: true
  /** True: only its own limits count it, not the budgets of account and address (contract 1.15). */
  unbudgeted?: true
  /** True: `handle` counts the request with a statement of its own (`Counting.countedBy`). A refusal by a limit is still answered before any other. */
  countsItself?: true
  /** True: X-Finish-Reason says if the answer was cut off at its maximum length. */
  mayBeCutOff?: true
  /** True: pages of any origin may call it from a browser. */
  crossOrigin?: true
  /** True: sessions that have not solved the captcha of their country yet are admitted. */
  beforeCaptcha?: true
  /** A GET that changes something: the audit record lists it like a command. */
  changes?: true
  /** A POST that changes nothing of the account: the audit record does not list it. */
  changesNothing?: true
  /** Hears of each refusal of a request that was admitted, unless its caller has left. Must not throw. */
  onRefusal?(caller: Caller, refusal: CodedError, services: Services): void
  /** Renders a refusal on a wire that is not JSON. */
  refusal?(error: CodedError): Reply
  /** What it throws in addition to `commonErrors`. */
  errors?: readonly ErrorCode[]
  /** Codes whose status differs from the catalogue's here (contract 10.2). */
  statuses?: Partial<Record<ErrorCode, number>>
  /** Codes that may also be answered with 500, for a failure that the caller cannot have caused (contract 10.2). */
  unexpected?: readonly ErrorCode[]
  /** Refusals of these codes have only `status` and `code`. */
  terse?: readonly ErrorCode[]
  handle(call: Call<A, z.output<Q>, z.output<B>>, services: Services): Promise<z.input<R> | Reply | JsonText>
}

/** A definition without its type parameters, as the router, the pipeline and the OpenAPI document see it. */
export interface Endpoint extends Omit<Definition<Auth, z.ZodObject, z.ZodObject, z.ZodType>, 'handle'> {
  handle(call: Call<Auth>, services: Services): Promise<unknown>
}

/** One object defines everything about an endpoint: route, rights, limits, schemas, errors, and the few lines that execute it. */
export function endpoint<
  const A extends Auth,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodObject = z.ZodObject<Record<never, never>>,
  R extends z.ZodType = z.ZodUndefined | z.ZodVoid,
>(definition: Definition<A, Q, B, R>): Endpoint {
  return definition as unknown as Endpoint
}

/** The caller, and what the path names, once they are known. */
export type Admission = NamedResource & { caller?: Caller; counting?: Counting }

/** Codes that the pipeline itself may answer with. Handlers may throw them as well. */
export function commonErrors({
  auth,
  query,
  body,
  upload,
  method,
  maxBodyBytes,
  wire = 'management',
}: Endpoint): ErrorCode[] {
  const codes: ErrorCode[] = [
    'INTERNAL_SERVER_ERROR',
    'DATABASE_UNAVAILABLE',
    'RATE_LIMIT',
    'KEEP_CALM',
    'COUNTRY_BLOCKED',
  ]
  if (auth !== 'public') codes.push('ACCESS_DENIED', 'CAPTCHA_REQUIRED')
  if (auth === 'session' || (typeof auth === 'object' && !auth.uploadToken)) codes.push('UPLOAD_TOKEN_NOT_ALLOWED')
  if (typeof auth === 'object') codes.push('MISSING_SCOPE')
  if (typeof auth === 'object' && closedToLimitedKeys(auth.scope)) codes.push('RESOURCE_NOT_ALLOWED')
  if (typeof auth === 'object' && auth.permission)
    codes.push('APP_NOT_FOUND', 'PERMISSION_DENIED', 'RESOURCE_NOT_ALLOWED')
  if (typeof auth === 'object' && auth.database) codes.push('DATABASE_NOT_FOUND', 'RESOURCE_NOT_ALLOWED')
  if (query || body) codes.push('INVALID_PARAMETERS', 'INVALID_INPUT')
  if (body) codes.push('INVALID_JSON_BODY')
  if (body && maxBodyBytes) codes.push('UPLOAD_BUSY')
  if (body || upload || method !== 'GET') codes.push('PAYLOAD_TOO_LARGE', 'INVALID_CONTENT_TYPE')
  return [...new Set(codes.map(code => codeOn(wire, code)))]
}
