import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { openApiDocument } from '../../../api/pipeline/openapi.ts'
import type { Schema } from './schema-values.ts'

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  schema: Schema
}

/** An operation of an API document. */
export interface Operation {
  id: string
  method: string
  path: string
  parameters: Parameter[]
  body?: { mediaType: string; schema: Schema }
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>
}

interface Document {
  paths: Record<string, Record<string, Omit<Operation, 'id' | 'method' | 'path'> & Written>>
}

interface Written {
  operationId: string
  requestBody?: { content: Record<string, { schema: Schema }> }
}

/** The operations of the document over some endpoints, as a reader of it finds them. */
export function operationsOf(endpoints: readonly Endpoint[], api?: Parameters<typeof openApiDocument>[2]): Operation[] {
  const text = JSON.stringify(openApiDocument(endpoints, 'http://127.0.0.1', api))
  const { paths } = JSON.parse(text) as Document
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId: id, parameters, requestBody, responses }]) => {
      const [mediaType, content] = Object.entries(requestBody?.content ?? {})[0] ?? []
      const body = mediaType && content ? { mediaType, schema: content.schema } : undefined
      return { id, method: method.toUpperCase(), path, parameters, body, responses }
    }),
  )
}

/** Everything that an operation is called with, as one object: its parameters by name, and the body. */
export function schemaOfCall({ parameters, body }: Operation): Schema {
  const properties = Object.fromEntries(parameters.map(({ name, schema }) => [name, schema]))
  const required = parameters.filter(one => one.required).map(({ name }) => name)
  if (!body) return { type: 'object', properties, required }
  return { type: 'object', properties: { ...properties, body: body.schema }, required: [...required, 'body'] }
}

const length = (text: string): number => Buffer.byteLength(text)

/** A validator of the documents' schemas, which knows their own keywords too. */
export function schemaValidator(): (schema: Schema) => ValidateFunction {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allowUnionTypes: true })
  for (const format of ['date-time', 'binary', 'uri']) ajv.addFormat(format, true)
  ajv.addKeyword({
    keyword: 'x-maxBytes',
    validate: (most: number, value: unknown) =>
      length(
        typeof value === 'string'
          ? value
          : Object.entries(value ?? {})
              .flat()
              .join(''),
      ) <= most,
  })
  ajv.addKeyword({
    keyword: 'x-maxNameBytes',
    validate: (most: number, value: unknown) =>
      typeof value !== 'string' || value.split('/').every(name => length(name) <= most),
  })
  const known = new Map<Schema, ValidateFunction>()
  return schema => {
    const validate = known.get(schema) ?? ajv.compile(schema)
    known.set(schema, validate)
    return validate
  }
}
