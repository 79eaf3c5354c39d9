import { createHash } from 'node:crypto'
import type { Wire } from '../../policy/errors.ts'
import { lastEventIdHeader } from '../http/event-stream.ts'
import type { ScopeAuth } from './access.ts'
import { type Endpoint, endpoint } from './endpoint.ts'
import { pathParameters } from './fields.ts'
import { idempotencyHeader } from './idempotent.ts'
import { answerHeaders, responsesOf } from './openapi-answers.ts'
import { type Json, schemaOf } from './openapi-schemas.ts'

/** The API that a document describes. */
interface Described {
  path: string
  version: string
  description: string
  wire?: Wire
}

/** What clients must know in addition to the list of codes. */
const general = [
  'DATABASE_UNAVAILABLE: nothing was changed and nothing will be, unless the message says that this is unknown.',
  'Texts must not contain NUL or lone surrogates. x-maxBytes limits the UTF-8 bytes of a text, or of all names and texts of an',
  'object; x-maxNameBytes limits those of each name in a path.',
].join(' ')

const managementApi: Described = {
  path: '/v2/openapi.json',
  version: '10.3.3',
  description: `Create applications from a zip archive, and databases; control and monitor them. ${general}`,
}

export const blobApi: Described = {
  path: '/v1/openapi.json',
  version: '1.0.0',
  description: `Store, list, change and share files. ${general}`,
  wire: 'blob',
}

/**
 * The endpoint of an API's document; supports ETag and 304. The document is generated from the endpoint table for the first request:
 * most processes never serve one, and would start later.
 */
export function openApi(endpoints: readonly Endpoint[], baseUrl: string, api = managementApi): Endpoint {
  let generated: ReturnType<typeof generate> | undefined
  const generate = () => {
    const body = JSON.stringify(openApiDocument(endpoints, baseUrl, api))
    return { body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"` }
  }
  return endpoint({
    name: 'openapi',
    method: 'GET',
    path: api.path,
    wire: api.wire,
    summary: 'This document',
    auth: 'public',
    envelope: false,
    async handle({ exchange }) {
      generated ??= generate()
      const { body, etag } = generated
      const headers = { ETag: etag, 'Cache-Control': 'public, max-age=300' }
      const tags = exchange.request.headers['if-none-match']?.split(',').map(tag => tag.trim().replace(/^W\//, ''))
      if (tags?.some(tag => tag === etag || tag === '*')) return { status: 304, headers }
      return { status: 200, headers: { 'Content-Type': 'application/json; charset=utf-8', ...headers }, body }
    },
  })
}

/** The document of all endpoints that accept an API key (contract 1.22). Pure. */
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
      headers: answerHeaders,
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
  return {
    operationId: endpoint.name,
    summary: endpoint.summary,
    tags: [endpoint.name.split('.')[0]],
    security: [{ apiKey: [] }],
    'x-scope': scopeOf(endpoint),
    parameters: [...pathParametersOf(endpoint.path), ...queryParametersOf(endpoint), ...headersOf(endpoint)],
    requestBody: requestBody(endpoint),
    responses: responsesOf(endpoint),
  }
}

function scopeOf({ auth }: Endpoint): string {
  const { scope, orScope } = auth as ScopeAuth
  return orScope ? `${scope} or ${orScope}` : (scope ?? 'full access')
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

function headersOf({ errors, stream }: Endpoint): Json[] {
  const keyed = errors?.includes('IDEMPOTENCY_KEY_REUSED') ? [idempotencyHeader] : []
  return stream?.resumes ? [...keyed, lastEventIdHeader] : keyed
}

function requestBody({ body, upload }: Endpoint): Json | undefined {
  if (upload) return { required: true, content: { [upload.mediaType]: { schema: schemaOf(upload.parts, 'input') } } }
  if (body) return { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } }
  return undefined
}
