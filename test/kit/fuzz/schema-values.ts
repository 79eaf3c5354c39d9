import fc from 'fast-check'

/** A schema as the API documents have it. */
export interface Schema {
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema
  propertyNames?: Schema
  items?: Schema
  pattern?: string
  format?: string
  contentSchema?: Schema
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  maxProperties?: number
  'x-maxBytes'?: number
  'x-maxNameBytes'?: number
}

/** Values that name something which is there, by the name of their field. */
export type Known = Record<string, fc.Arbitrary<unknown>>

/** Values that a schema allows. What `known` has for a field is taken most of the time. */
export function valuesOf(schema: Schema, known: Known = {}, field = ''): fc.Arbitrary<unknown> {
  const values = anyOf(schema, known, field)
  const there = known[field]
  return there ? fc.oneof({ weight: 3, arbitrary: there }, { weight: 1, arbitrary: values }) : values
}

function anyOf(schema: Schema, known: Known, field: string): fc.Arbitrary<unknown> {
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (isObject(schema)) return fc.oneof(...waysOf(schema).map(way => objects(way, known)))
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives) return fc.oneof(...alternatives.map(one => valuesOf(one, known, field)))
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map(type => anyOf({ ...schema, type }, known, field)))
  if (schema.type === 'boolean') return fc.boolean()
  if (schema.type === 'null') return fc.constant(null)
  if (schema.type === 'integer') return integers(schema)
  if (schema.type === 'number') return numbers(schema)
  if (schema.type === 'array') return arrays(schema, known)
  if (schema.contentSchema) return valuesOf(schema.contentSchema).map(value => JSON.stringify(value))
  return texts(schema)
}

const isObject = (schema: Schema): boolean =>
  schema.type === 'object' || (schema.type === undefined && schema.properties !== undefined)

/** An object schema without choices, once for every choice. */
export function waysOf({ allOf = [], anyOf: one, ...rest }: Schema): Schema[] {
  const choices = [...allOf, ...(one ? [{ anyOf: one }] : [])].map(({ anyOf: forms = [] }) => forms)
  return choices.reduce<Schema[]>(
    (ways, forms) => ways.flatMap(way => forms.map(form => both(way, form))),
    [{ type: 'object', ...rest }],
  )
}

const both = (way: Schema, form: Schema): Schema => ({
  ...way,
  properties: { ...way.properties, ...form.properties },
  required: [...(way.required ?? []), ...(form.required ?? [])],
})

function objects(schema: Schema, known: Known): fc.Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties: others, propertyNames, maxProperties } = schema
  if (others) {
    const maxKeys = Math.min(maxProperties ?? 8, 8)
    const named = fc.dictionary(texts({ minLength: 1, ...propertyNames }), valuesOf(others), { maxKeys })
    return named.filter(value => bytesOf(Object.entries(value).flat()) <= (schema['x-maxBytes'] ?? Infinity))
  }
  const fields = Object.entries(properties).map(([name, one]) => [name, valuesOf(one, known, name)] as const)
  return fc.record(Object.fromEntries(fields), { requiredKeys: required, noNullPrototype: true })
}

const bytesOf = (parts: unknown[]): number => parts.reduce<number>((sum, part) => sum + Buffer.byteLength(`${part}`), 0)

function integers({ minimum = 0, maximum = 2 ** 31 }: Schema): fc.Arbitrary<number> {
  return fc.oneof(fc.integer({ min: minimum, max: maximum }), fc.constantFrom(minimum, maximum))
}

function numbers({ minimum = 0, maximum = 2 ** 31 }: Schema): fc.Arbitrary<number> {
  return fc.oneof(fc.double({ min: minimum, max: maximum, noNaN: true }), fc.constantFrom(minimum, maximum))
}

function arrays({ items = {}, minItems = 0, maxItems = 8 }: Schema, known: Known): fc.Arbitrary<unknown[]> {
  return fc.array(valuesOf(items, known), { minLength: minItems, maxLength: Math.min(maxItems, 8) })
}

const noNul = /^[^\0]*$/

function texts(schema: Schema): fc.Arbitrary<string> {
  const { pattern, minLength = 0, maxLength = Infinity } = schema
  const form = pattern === undefined ? noNul : new RegExp(pattern, 'u')
  const longest = Math.min(maxLength, 2000)
  const size = { minLength, maxLength: longest }
  const plain =
    pattern === undefined
      ? fc.oneof(fc.string(size), fc.string({ ...size, unit: 'binary' }), ...longestOf(minLength, maxLength))
      : fc.stringMatching(new RegExp(withoutLookaheads(pattern), 'u'), { maxLength: longest })
  return plain.filter(text => form.test(text) && noNul.test(text) && fits(text, schema))
}

/** Texts of exactly the least and the most characters, of one code unit and of two. */
function longestOf(least: number, most: number): fc.Arbitrary<string>[] {
  if (most > 5000) return []
  return [fc.constantFrom(...[least, most].flatMap(length => ['x'.repeat(length), '\u{1f600}'.repeat(length)]))]
}

function fits(text: string, { minLength = 0, maxLength = Infinity, ...bytes }: Schema): boolean {
  const length = [...text].length
  const { 'x-maxBytes': most = Infinity, 'x-maxNameBytes': ofName = Infinity } = bytes
  return (
    length >= minLength &&
    length <= maxLength &&
    Buffer.byteLength(text) <= most &&
    text.split('/').every(name => Buffer.byteLength(name) <= ofName)
  )
}

/** What is left has more matches; those of the whole pattern are picked out of them. */
function withoutLookaheads(pattern: string): string {
  for (let at = 0; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++
    else if (/^\(\?[=!]/.test(pattern.slice(at)))
      return withoutLookaheads(pattern.slice(0, at) + pattern.slice(endOfGroup(pattern, at)))
  }
  return pattern
}

function endOfGroup(pattern: string, begin: number): number {
  let depth = 0
  let inClass = false
  for (let at = begin; at < pattern.length; at++) {
    const sign = pattern[at]
    if (sign === '\\') at++
    else if (inClass) inClass = sign !== ']'
    else if (sign === '[') inClass = true
    else if (sign === '(') depth++
    else if (sign === ')' && --depth === 0) return at + 1
  }
  throw new Error(`a group without end: ${pattern}`)
}
