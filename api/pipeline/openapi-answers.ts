import { aiFailureTypes } from '../../policy/ai/ai-refusal.ts'
import { catalogueEntry, codeOn, type ErrorCode, shownCode, unexpectedStatus } from '../../policy/errors.ts'
import { commonErrors, type Endpoint } from './endpoint.ts'
import { type Json, schemaOf } from './openapi-schemas.ts'

/** Headers of answers; the documents describe each once. */
export const answerHeaders = {
  RequestId: { description: 'Identifies this request in the logs of the platform.', schema: { type: 'string' } },
  RetryAfter: {
    description: 'Seconds to wait before trying again.',
    schema: { type: 'integer', minimum: 0 },
  },
  OperationId: {
    description: 'The id of the operation that this request started, if any.',
    schema: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  },
  Replayed: {
    description: 'This is the answer to an earlier request with the same Idempotency-Key.',
    schema: { const: 'true' },
  },
  CachedAt: {
    description: 'When this answer was computed, if it comes from a cache.',
    schema: { type: 'string', format: 'date-time' },
  },
  Location: { description: 'Where to continue.', schema: { type: 'string', format: 'uri' } },
  ShouldRetry: {
    description: 'Clients must not retry automatically: the time in Retry-After is over a minute.',
    schema: { const: 'false' },
  },
  FinishReason: { description: 'The answer was cut off at its maximum length.', schema: { const: 'length' } },
} as const

const wireNames = {
  RequestId: 'X-Request-Id',
  RetryAfter: 'Retry-After',
  OperationId: 'X-Operation-Id',
  Replayed: 'Idempotent-Replayed',
  CachedAt: 'X-Cached-At',
  Location: 'Location',
  ShouldRetry: 'X-Should-Retry',
  FinishReason: 'X-Finish-Reason',
} as const satisfies Record<keyof typeof answerHeaders, string>

/** Every answer of an endpoint by its status, with headers. */
export function responsesOf(endpoint: Endpoint): Json {
  const answers: Record<string, Json> = {
    [endpoint.success ?? 200]: success(endpoint),
    ...(endpoint.redirects && { 302: { description: endpoint.redirects } }),
    ...refusals(endpoint),
  }
  return Object.fromEntries(
    Object.entries(answers).map(([status, { description, ...rest }]) => [
      status,
      { description, headers: headersOf(endpoint, Number(status)), ...rest },
    ]),
  )
}

/** Headers of an answer with this status, beyond those that HTTP itself requires. */
function headersOf({ wire, operation, errors, mayBeCutOff }: Endpoint, status: number): Json {
  const isStored = status < 500 && ![401, 403, 429].includes(status)
  const isSent: Record<keyof typeof answerHeaders, boolean> = {
    RequestId: true,
    RetryAfter: status === 429 || status === 503,
    OperationId: operation === true && ![401, 403, 413, 415, 429].includes(status),
    Replayed: isStored && (errors?.includes('IDEMPOTENCY_KEY_REUSED') ?? false),
    CachedAt: status === 200 && (errors?.includes('ANALYTICS_BUSY') ?? false),
    Location: status === 302,
    ShouldRetry: wire === 'ai' && (status === 429 || status === 503),
    FinishReason: status === 200 && mayBeCutOff === true,
  }
  const names = Object.keys(wireNames) as (keyof typeof wireNames)[]
  return Object.fromEntries(
    names.filter(name => isSent[name]).map(name => [wireNames[name], { $ref: `#/components/headers/${name}` }]),
  )
}

function success({ response, stream, codeAlongside, envelope }: Endpoint): Json {
  const events = stream && { 'text/event-stream': { schema: { type: 'string', description: stream.events } } }
  if (envelope === false)
    return {
      description: stream?.events ?? 'Success',
      content: response ? { ...jsonOf(schemaOf(response, 'output')), ...events } : events,
    }
  const properties: Json = { status: { const: 'success' } }
  if (codeAlongside) properties.code = { type: 'string' }
  if (response) properties.response = schemaOf(response, 'output')
  const required = response?.safeParse(undefined).success ? ['status'] : Object.keys(properties)
  return { description: 'Success', content: { ...jsonOf({ type: 'object', properties, required }), ...events } }
}

/** One answer per status, with all codes of that status: two codes with the same status must not overwrite each other. */
function refusals(endpoint: Endpoint): Record<string, Json> {
  const { wire = 'management' } = endpoint
  const own = (endpoint.errors ?? []).map(code => codeOn(wire, code))
  const codes = new Set<ErrorCode>([...commonErrors(endpoint), ...own])
  const byStatus: Record<string, ErrorCode[]> = {}
  for (const code of [...codes].sort()) {
    const status = endpoint.statuses?.[code] ?? catalogueEntry(code, wire)[0]
    byStatus[status] = [...(byStatus[status] ?? []), code]
    if (endpoint.unexpected?.includes(code)) byStatus[unexpectedStatus] = [...(byStatus[unexpectedStatus] ?? []), code]
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, group]) => [
      status,
      {
        description: group.map(code => `${shownCode(wire, code)}: ${catalogueEntry(code, wire)[1]}`).join(' '),
        content: jsonOf(wire === 'ai' ? aiRefusal(group) : refusal(group)),
      },
    ]),
  )
}

const aiRefusal = (codes: ErrorCode[]): Json =>
  objectOf({
    error: objectOf({
      message: { type: 'string' },
      type: { type: 'string', enum: aiFailureTypes },
      code: { type: 'string', enum: codes.map(code => shownCode('ai', code)) },
    }),
  })

const refusal = (codes: ErrorCode[]): Json => ({
  ...objectOf({
    status: { type: 'string', const: 'error' },
    code: { type: 'string', enum: codes },
    message: { type: 'string' },
  }),
  required: ['status', 'code'],
})

const objectOf = (properties: Json): Json => ({ type: 'object', properties, required: Object.keys(properties) })

const jsonOf = (schema: Json): Json => ({ 'application/json': { schema } })
