import test from 'ava'
import { blobApi, openApiDocument } from '../../../api/pipeline/openapi.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { blobErrors } from '../../../policy/objects/blob-errors.ts'
import { testApi } from '../../kit/actors/api.ts'

const api = testApi()

interface Operation {
  operationId: string
  responses: Record<string, { content?: Record<string, { schema: { properties: { code?: { enum: string[] } } } }> }>
}

const document = openApiDocument(blobEndpoints, 'http://x', blobApi) as {
  paths: Record<string, Record<string, Operation>>
}
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
)

test('the blob API describes itself', async t => {
  const answer = await api().blobAs(undefined).get('/v1/openapi.json')
  t.like(answer, { status: 200, body: { openapi: '3.1.0', info: { version: '1.0.0' } } })
  t.deepEqual(Object.keys(answer.body.paths), Object.keys(document.paths))
})

test('the document lists every route of the blob API, once', t => {
  t.deepEqual(
    operations.map(({ method, path, operation }) => `${method} ${path} ${operation.operationId}`).sort(),
    blobEndpoints.map(({ method, path, name }) => `${method.toLowerCase()} ${path} ${name}`).sort(),
  )
})

test('a download redirects by default, and the codes for one of several objects are listed', t => {
  const operation = (id: string) => operations.find(one => one.operation.operationId === id)!.operation
  const download = JSON.stringify(operation('objects.download'))
  t.regex(download, /"302":\{[^}]*"headers":\{.*?"Location"/)
  t.true(
    download.includes('"name":"redirect","in":"query","required":false,"schema":{"type":"boolean","default":true}'),
  )
  t.regex(JSON.stringify(operation('objects.update')), /"code":\{"type":"string","enum":\["INVALID_OBJECT",/)
  t.true(JSON.stringify(operation('s3.credentials')).includes('"x-scope":"blob:read or blob:write"'))
  t.false(JSON.stringify(document).includes('"$schema"'))
})

test('every code is one of the blob wire, under its one status', t => {
  for (const { method, path, operation } of operations) {
    const seen = Object.entries(operation.responses).flatMap(([status, { content }]) =>
      (content?.['application/json']?.schema.properties.code?.enum ?? []).map(code => [code, Number(status)] as const),
    )
    t.is(new Set(seen.map(([code]) => code)).size, seen.length, `${method} ${path}`)
    for (const [code, status] of seen) {
      const { statuses } = blobEndpoints.find(({ name }) => name === operation.operationId)!
      const own: number | undefined = statuses?.[code as never]
      const expected = own ?? blobErrors[code as keyof typeof blobErrors]?.[0]
      t.is<number, number>(expected, status, `${method} ${path} ${code}`)
    }
  }
})
