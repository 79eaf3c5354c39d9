import test from 'ava'
import { openApiDocument } from '../../../api/pipeline/openapi.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'
import { catalogueEntry, type ErrorCode } from '../../../policy/errors.ts'
import { testApi } from '../../kit/actors/api.ts'

const api = testApi()

test('the document is 3.1.0 in the 2020-12 dialect and has an ETag', async t => {
  const answer = await api().as(undefined).get('/v2/openapi.json')
  t.is(answer.status, 200)
  t.is(answer.body.openapi, '3.1.0')
  t.is(answer.body.jsonSchemaDialect, 'https://json-schema.org/draft/2020-12/schema')
  t.is(answer.body.info.version, '10.3.3')
  const again = await api()
    .as(undefined)
    .get('/v2/openapi.json', { 'if-none-match': answer.headers.get('etag') ?? '' })
  t.is(again.status, 304)
  t.is(again.text, '')
  for (const name of ['content-length', 'content-type', 'transfer-encoding'])
    t.is(again.headers.get(name), null, `304 says ${name} of a body that is not sent`)
  t.is(again.headers.get('etag'), answer.headers.get('etag'))
})

test('the document lists every route that accepts an API key, once, and no other', t => {
  const document = openApiDocument(endpoints, 'http://x') as {
    paths: Record<string, Record<string, { operationId: string }>>
  }
  const listed = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => `${method} ${path} ${operationId}`),
  )
  const expected = endpoints
    .filter(e => typeof e.auth === 'object')
    .map(e => `${e.method.toLowerCase()} ${e.path} ${e.name}`)
  t.deepEqual(listed.sort(), expected.sort())
  t.is(new Set(endpoints.map(e => e.name)).size, endpoints.length)
})

interface RefusalSchema {
  properties: { code?: { enum: string[] }; error?: RefusalSchema }
}

/** The codes that an answer may have, in the spelling of the catalogue. */
const codesOf = (schema?: RefusalSchema): string[] =>
  schema?.properties.code?.enum ?? schema?.properties.error?.properties.code?.enum.map(code => code.toUpperCase()) ?? []

const ofEveryCall = ['ACCESS_DENIED', 'MISSING_SCOPE', 'RATE_LIMIT', 'KEEP_CALM', 'DATABASE_UNAVAILABLE']
const ofEveryAiCall = ['ACCESS_DENIED', 'MISSING_SCOPE', 'RESOURCE_NOT_ALLOWED', 'RATE_LIMITED', 'SERVER_OVERLOADED']

test('every code stands under its own status, and none twice', t => {
  const document = openApiDocument(endpoints, 'http://x')
  for (const [path, methods] of Object.entries(document.paths as object))
    for (const [method, operation] of Object.entries(methods as object)) {
      const seen = new Set<string>()
      for (const [status, response] of Object.entries(
        operation.responses as Record<string, { content: Record<string, { schema: RefusalSchema }> }>,
      ))
        for (const code of codesOf(response.content['application/json']?.schema)) {
          const { statuses, unexpected, wire } = endpoints.find(({ name }) => name === operation.operationId)!
          if (status === '500' && unexpected?.includes(code as ErrorCode)) continue
          t.false(seen.has(code), `${method} ${path} ${code}`)
          seen.add(code)
          t.is(String(statuses?.[code as ErrorCode] ?? catalogueEntry(code as ErrorCode, wire)[0]), status)
        }
      const isAi = path.startsWith('/v2/ai/')
      for (const code of isAi ? ofEveryAiCall : ofEveryCall) t.true(seen.has(code), `${method} ${path} ${code}`)
    }
})

test('a failure that only the platform can have caused is described at both of its statuses', t => {
  const { paths } = openApiDocument(endpoints, 'http://x') as {
    paths: Record<string, Record<string, { responses: Record<string, object> }>>
  }
  const { responses } = paths['/v2/databases']!.post!
  for (const status of [400, 500]) t.true(JSON.stringify(responses[status]).includes('"DATABASE_CREATION_FAILED"'))
})

test('headers of answers and streams are described', t => {
  const { paths } = openApiDocument(endpoints, 'http://x') as {
    paths: Record<
      string,
      Record<string, { responses: Record<string, Record<string, object>>; parameters: { name: string }[] }>
    >
  }
  const headersOf = (path: string, method: string, status: number) =>
    Object.keys(paths[path]![method]!.responses[status]!.headers!)
  t.deepEqual(headersOf('/v2/apps', 'post', 200), ['X-Request-Id', 'X-Operation-Id', 'Idempotent-Replayed'])
  t.deepEqual(headersOf('/v2/apps', 'post', 429), ['X-Request-Id', 'Retry-After'])
  t.deepEqual(headersOf('/v2/users/me', 'get', 503), ['X-Request-Id', 'Retry-After'])
  const chat = '/v2/ai/chat/completions'
  t.deepEqual(headersOf(chat, 'post', 429), ['X-Request-Id', 'Retry-After', 'X-Should-Retry'])
  t.deepEqual(headersOf(chat, 'post', 200), ['X-Request-Id', 'X-Finish-Reason'])
  const logs = paths['/v2/apps/{appId}/deployments/{deploymentId}/logs']!.get!
  t.deepEqual(Object.keys(logs.responses[200]!.content!), ['application/json', 'text/event-stream'])
  t.true(logs.parameters.some(({ name }) => name === 'Last-Event-ID'))
  const files = JSON.stringify(paths['/v2/apps/{appId}/files']!.put)
  t.true(files.includes('"required":["buffer"]') && files.includes('"required":["content"]'))
})

test('nothing of the validator leaks into the schemas', t => {
  const text = JSON.stringify(openApiDocument(endpoints, 'http://x'))
  for (const word of ['"openapi":{', '~standard', '"$schema"', 'INVALID_TYPE']) t.false(text.includes(word), word)
  t.true(text.includes('"name":"rawData","in":"query","required":false,"schema":{"type":"boolean","default":false}'))
})

test('the endpoints that grant roles document what a deploying role can access', t => {
  const reported = JSON.stringify(openApiDocument(endpoints, 'http://x'))
  t.is(reported.match(/From `maintain` up a member may deploy code, which can read the variables/g)?.length, 2)
})

test('answers may gain fields: none of their objects is closed but the empty one', t => {
  const document = openApiDocument(endpoints, 'http://x')
  const closed: string[] = []
  const look = (schema: unknown, place: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { additionalProperties, properties = {} } = schema as { additionalProperties?: unknown; properties?: object }
    if (additionalProperties === false && Object.keys(properties).length > 0) closed.push(place)
    for (const [name, inner] of Object.entries(schema)) look(inner, `${place}/${name}`)
  }
  for (const [path, methods] of Object.entries(document.paths as object))
    for (const [method, operation] of Object.entries(methods as object)) look(operation.responses, `${method} ${path}`)
  t.deepEqual(closed, [])
  t.regex(
    JSON.stringify(document),
    /"properties":\{\},"additionalProperties":false/,
    'analytics of a time before the application',
  )
})
