import fc from 'fast-check'
import { type Known, type Schema, valuesOf, waysOf } from './schema-values.ts'

/** A body with more is refused for its size, and shows nothing of a bound. */
const mostBytes = 900_000

/** Values one step past each bound of a schema, the rest of each as it may be; who calls looks which of them are refused. */
export function wrongOnes(schema: Schema, known: Known, seed: number): unknown[] {
  const one = (of: Schema, field = '') => fc.sample(valuesOf(of, known, field), { seed, numRuns: 1 })[0]
  if (schema.type === 'object') return waysOf(schema).flatMap(way => wrongObjects(way, one, known, seed))
  const { anyOf = [], items, maxItems, minItems, minimum, maximum } = schema
  const inside = anyOf.flatMap(of => wrongOnes(of, known, seed))
  if (items) {
    const item = one(items)
    const lists = [maxItems && maxItems < 1000 ? Array(maxItems + 1).fill(item) : [], minItems ? [] : [item]]
    return [...lists, ...wrongOnes(items, known, seed).map(wrong => [wrong]), 'no list', ...inside]
  }
  const numbers = [minimum === undefined ? [] : [minimum - 1], maximum === undefined ? [] : [maximum + 1]].flat()
  return [...inside, ...numbers, ...wrongTexts(schema)]
}

function wrongObjects(
  { properties = {}, additionalProperties, propertyNames, maxProperties, 'x-maxBytes': bytes }: Schema,
  one: (of: Schema, field?: string) => unknown,
  known: Known,
  seed: number,
): unknown[] {
  if (additionalProperties) {
    const names = (count: number, value: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`N${n}`, value]))
    return [
      'no object',
      ...(maxProperties ? [names(maxProperties + 1, 'x')] : []),
      ...(bytes && bytes < mostBytes ? [{ N: 'x'.repeat(bytes) }] : []),
      ...wrongOnes(additionalProperties, known, seed).map(wrong => ({ N: wrong })),
      ...wrongTexts(propertyNames ?? {}).map(wrong => ({ [String(wrong)]: 'x' })),
    ]
  }
  const valid = Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, one(of, name)]))
  return Object.entries(properties).flatMap(([name, of]) => [
    ...wrongOnes(of, known, seed).map(wrong => ({ ...valid, [name]: wrong })),
    { ...valid, [name]: undefined },
  ])
}

function wrongTexts({ minLength = 0, maxLength, pattern, 'x-maxBytes': bytes }: Schema): unknown[] {
  const long = maxLength !== undefined && maxLength < mostBytes
  return [
    ...(long ? ['x'.repeat(maxLength + 1), '\u{1f600}'.repeat(maxLength + 1)] : []),
    ...(bytes !== undefined && bytes < mostBytes ? ['\u{1f600}'.repeat(Math.floor(bytes / 4) + 1)] : []),
    ...(minLength > 0 ? ['x'.repeat(minLength - 1)] : []),
    ...(pattern === undefined ? [] : ['\u0001', ' ', '../..', 'x'.repeat(600)]),
    'no such value',
    [],
  ]
}
