import type { z } from 'zod'
import type { AppRow } from '../../db/apps/apps.ts'
import type { Role } from '../../policy/accounts/permissions.ts'
import { type ApiError, codeOn, type ErrorCode, type Wire } from '../../policy/errors.ts'
import type { Exchange } from '../http/call.ts'
import type { Reply } from '../http/respond.ts'
import type { Access, Auth } from './access.ts'
import type { Caller } from './authenticate.ts'
import type { Services } from '../services.ts'

/** What an endpoint is handed: who calls, about which application, with what. */
export interface Call<A extends Auth = Auth, Query = unknown, Body = unknown> {
  caller: A extends 'public' ? undefined : Caller
  app: A extends { permission: string } ? AppRow : undefined
  role: A extends { permission: string } ? Role : undefined
  query: Query
  body: Body
  exchange: Exchange
}

export interface Definition<A extends Auth, Q extends z.ZodObject, B extends z.ZodObject, R extends z.ZodType> {
  /** Noun and verb; the row of `policy/limits.ts` has the same name, and the OpenAPI operation too. */
  name: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Whose names and statuses its refusals have; the management wire's when left out. */
  wire?: Wire
  /** With parameters in braces: `/v2/apps/{appId}`. */
  path: string
  summary: string
  auth: A
  query?: Q
  /** A JSON body. Fields that have a code of their own carry it as the schema's `error`. */
  body?: B
  /** A body that `handle` reads itself, as a stream; named by its media type, with the schema of its parts. */
  upload?: { mediaType: string; parts: z.ZodObject; maxBytes: number; tooLarge: ErrorCode }
  maxBodyBytes?: number
  /** True: names of fields may be the caller's own, so that `__proto__` is one to keep and not one to drop. */
  namesAreData?: true
  /** True: `content`, or its alias `buffer`, is a file; the schema sees its bytes, whatever shape they come in. */
  holdsFile?: true
  /** The value under `response` of the envelope; without it the envelope has only `status`. */
  response?: R
  /** The `code` of the value stands beside `status` as well: existing clients look for it there. */
  codeBeside?: true
  /** What success is; 200 when left out. */
  success?: 201
  /** False: `handle` gives the whole reply, which has no envelope. */
  envelope?: false
  /** The answer is a stream of events, or may be one where there is an envelope too; `handle` writes it itself. `events` names them. */
  stream?: { events: string; resumes?: true }
  /** What a 302 leads to, where that is an answer; `handle` writes it itself. */
  redirects?: string
  /** True: it begins an operation, whose id its answers carry as X-Operation-Id. */
  operation?: true
  /** True: no budget counts it and no country is blocked (contract 1.15); programs of a provider call it, with a measure of its own. */
  uncounted?: true
  /** True: its own limits count it, the budgets of account and address do not (contract 1.15). */
  unbudgeted?: true
  /** True: pages of any origin may call it from a browser. */
  crossOrigin?: true
  /** True: a session is let in that has not solved the captcha of its country yet. */
  beforeCaptcha?: true
  /** A GET that changes something: it stands in the audit record as commands do. */
  changes?: true
  /** How a refusal looks on a wire that is not JSON. */
  refusal?(error: ApiError): Reply
  /** What it throws beyond `commonErrors`. */
  errors?: readonly ErrorCode[]
  /** Codes that stand at another status here than in the catalogue (contract 10.2). */
  statuses?: Partial<Record<ErrorCode, number>>
  /** Refusals of these codes have only `status` and `code`. */
  terse?: readonly ErrorCode[]
  handle(call: Call<A, z.output<Q>, z.output<B>>, services: Services): Promise<z.input<R> | Reply>
}

/** A definition with its types forgotten, as the router, the pipeline and the OpenAPI document see it. */
export interface Endpoint extends Omit<Definition<Auth, z.ZodObject, z.ZodObject, z.ZodType>, 'handle'> {
  handle(call: Call<Auth>, services: Services): Promise<unknown>
}

/** One object says everything about an endpoint: route, rights, limits, schemas, errors, and the few lines that do it. */
export function endpoint<
  const A extends Auth,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodObject = z.ZodObject<Record<never, never>>,
  R extends z.ZodType = z.ZodUndefined | z.ZodVoid,
>(definition: Definition<A, Q, B, R>): Endpoint {
  return definition as unknown as Endpoint
}

/** Who calls, and about what, once both are known. */
export type Admission = Partial<Access> & { caller?: Caller }

/** Codes that the pipeline itself may answer with. Handlers may throw them too. */
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
  if (typeof auth === 'object' && auth.scope?.startsWith('blob:')) codes.push('RESOURCE_NOT_ALLOWED')
  if (typeof auth === 'object' && auth.permission)
    codes.push('APP_NOT_FOUND', 'PERMISSION_DENIED', 'RESOURCE_NOT_ALLOWED')
  if (query || body) codes.push('INVALID_PARAMETERS', 'INVALID_INPUT')
  if (body) codes.push('INVALID_JSON_BODY')
  if (body && maxBodyBytes) codes.push('UPLOAD_BUSY')
  if (body || upload || method !== 'GET') codes.push('PAYLOAD_TOO_LARGE', 'INVALID_CONTENT_TYPE')
  return [...new Set(codes.map(code => codeOn(wire, code)))]
}
