import { createHash } from 'node:crypto'
import { z } from 'zod'
import { catalogued, codeOn, type ErrorCode, type Wire } from '../policy/errors.ts'
import { commonErrors, type Endpoint, endpoint } from './endpoint.ts'
import { pathParameters } from './fields.ts'
import { idempotencyHeader } from './idempotent.ts'

type Json = Record<string, unknown>

/** Of which API a document is. */
interface Described {
  path: string
  version: string
  description: string
  wire?: Wire
}

/** What a client has to know beyond the list of codes. */
const unavailable =
  'DATABASE_UNAVAILABLE: nothing was done and nothing will be, unless the message says that this is not known.'

const managementApi: Described = {
  path: '/v2/openapi.json',
  version: '10.3.3',
  description: `Applications from a zip: create, control, watch. ${unavailable}`,
}

export const blobApi: Described = {
  path: '/v1/openapi.json',
  version: '1.0.0',
  description: `Files: store, list, change, share. ${unavailable}`,
  wire: 'blob',
}

/** The document of an API: made once from its endpoint table; ETag and 304. */
export function openApi(endpoints: readonly Endpoint[], baseUrl: string, api = managementApi): Endpoint {
  const body = JSON.stringify(openApiDocument(endpoints, baseUrl, api))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
  const headers = { ETag: etag, 'Cache-Control': 'public, max-age=300' }
  return endpoint({
    name: 'openapi',
    method: 'GET',
    path: api.path,
    wire: api.wire,
    summary: 'This document',
    auth: 'public',
    envelope: false,
    async handle({ exchange }) {
      const known = exchange.request.headers['if-none-match']?.split(',').map(tag => tag.trim().replace(/^W\//, ''))
      if (known?.some(tag => tag === etag || tag === '*')) return { status: 304, headers }
      return { status: 200, headers: { 'Content-Type': 'application/json; charset=utf-8', ...headers }, body }
    },
  })
}

/** The document over those endpoints that accept an API key (specification 9). Pure. */
export function openApiDocument(
  endpoints: readonly Endpoint[],
  baseUrl: string,
  { version, description } = managementApi,
): Json {
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints.filter(e => typeof e.auth === 'object'))
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method.toLowerCase()]: operation(endpoint) }
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: { title: 'Berth', version, description },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'An API key or a session token; the prefix "Bearer " is optional.',
        },
      },
    },
    security: [{ apiKey: [] }],
  }
}

function operation(endpoint: Endpoint): Json {
  const scope = typeof endpoint.auth === 'object' ? endpoint.auth.scope : null
  return {
    operationId: endpoint.name,
    summary: endpoint.summary,
    tags: [endpoint.name.split('.')[0]],
    security: [{ apiKey: [] }],
    'x-scope': scope ?? 'full access',
    parameters: [...pathParametersOf(endpoint.path), ...queryParametersOf(endpoint), ...headersOf(endpoint)],
    requestBody: requestBody(endpoint),
    responses: { [endpoint.success ?? 200]: success(endpoint), ...refusals(endpoint) },
  }
}

function pathParametersOf(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: pathParameters[name!],
  }))
}

function queryParametersOf({ query }: Endpoint): Json[] {
  if (!query) return []
  const { properties = {}, required = [] } = schemaOf(query, 'input') as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
}

function headersOf({ errors }: Endpoint): Json[] {
  return errors?.includes('IDEMPOTENCY_KEY_REUSED') ? [idempotencyHeader] : []
}

function requestBody({ body, upload }: Endpoint): Json | undefined {
  if (upload) return { required: true, content: { [upload.mediaType]: { schema: schemaOf(upload.parts, 'input') } } }
  if (body) return { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } }
  return undefined
}

function success({ response, stream, codeBeside }: Endpoint): Json {
  if (stream) return { description: stream, content: { 'text/event-stream': { schema: { type: 'string' } } } }
  const properties: Json = { status: { const: 'success' } }
  if (codeBeside) properties.code = { type: 'string' }
  if (response) properties.response = schemaOf(response, 'output')
  const required = response?.safeParse(undefined).success ? ['status'] : Object.keys(properties)
  return { description: 'Success', content: jsonOf({ type: 'object', properties, required }) }
}

/** One answer per status, with every code of that status: two codes of one status must not overwrite each other. */
function refusals(endpoint: Endpoint): Json {
  const own = (endpoint.errors ?? []).map(code => codeOn(endpoint.wire ?? 'management', code))
  const codes = new Set<ErrorCode>([...commonErrors(endpoint), ...own])
  const byStatus: Record<string, ErrorCode[]> = {}
  for (const code of [...codes].sort()) {
    const status = endpoint.statuses?.[code] ?? catalogued(code, endpoint.wire)[0]
    byStatus[status] = [...(byStatus[status] ?? []), code]
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, group]) => [
      status,
      {
        description: group.map(code => `${code}: ${catalogued(code, endpoint.wire)[1]}`).join(' '),
        content: jsonOf(refusalSchema(group)),
      },
    ]),
  )
}

const refusalSchema = (codes: ErrorCode[]): Json => ({
  type: 'object',
  properties: { status: { const: 'error' }, code: { enum: codes }, message: { type: 'string' } },
  required: ['status', 'code'],
})

const jsonOf = (schema: Json): Json => ({ 'application/json': { schema } })

/** JSON Schema of a zod schema. A field that says `openapi` in its meta is shown as that; no meta leaks as a keyword. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ jsonSchema }) {
      const shown = (jsonSchema as Json).openapi
      if (!shown) return
      for (const key of Object.keys(jsonSchema)) delete (jsonSchema as Json)[key]
      Object.assign(jsonSchema, shown)
    },
  })
  return json
}
