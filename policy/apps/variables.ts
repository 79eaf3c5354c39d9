import { CodedError } from '../errors.ts'
import { isLengthWithin } from '../stated-bounds.ts'

/** An application's variables by name. A map, because names such as `__proto__` and `constructor` are valid. */
export type Variables = ReadonlyMap<string, string>

/** Max variables of an application, and max characters of a name and of a value (contract 4.24). */
export const variableLimits = { max: 256, nameCharacters: 1024, valueCharacters: 4096 } as const
const legalName = /^[A-Za-z_][A-Za-z0-9_]*$/
const shownName = { type: 'string', pattern: legalName.source, maxLength: variableLimits.nameCharacters }
/** The kernel allows 2 MB for arguments and environment of a program; with more no container starts. */
const maxBytes = 1_500_000

/** The input of `variablesFrom`, as the OpenAPI document shows it. */
export const variablesShown = {
  type: 'object',
  description: `Names and values must be at most ${maxBytes} bytes in total.`,
  propertyNames: shownName,
  additionalProperties: { type: 'string', maxLength: variableLimits.valueCharacters },
  maxProperties: variableLimits.max,
  'x-maxBytes': maxBytes,
}

/** The input of `namesFrom`. */
export const namesShown = { type: 'array', items: shownName }

/** Parses a caller's variables. Throws the code of the first fault; messages never contain a value. */
export function variablesFrom(given: unknown): Map<string, string> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new CodedError('INVALID_ENV_CONTENT')
  const variables = new Map<string, string>()
  for (const [name, value] of Object.entries(given)) {
    assertName(name)
    if (typeof value !== 'string' || /\0|\p{Surrogate}/u.test(value))
      throw new CodedError('INVALID_ENV_CONTENT', `The value of ${shown(name)} must be a valid string.`)
    if (!isLengthWithin(value, 0, variableLimits.valueCharacters))
      throw new CodedError(
        'ENV_CONTENT_TOO_LONG',
        `The value of ${shown(name)} has more than ${variableLimits.valueCharacters} characters.`,
      )
    variables.set(name, value)
  }
  assertFits(variables)
  return variables
}

/** Parses a caller's list of names. */
export function namesFrom(given: unknown): Set<string> {
  if (!Array.isArray(given)) throw new CodedError('INVALID_ENV_CONTENT')
  for (const name of given) assertName(name)
  return new Set(given)
}

/** Throws TOO_MANY_ENV_VARS above 256, ENV_CONTENT_TOO_LONG when no program could start with them. */
export function assertFits(variables: Variables): void {
  if (variables.size > variableLimits.max) throw new CodedError('TOO_MANY_ENV_VARS')
  let bytes = 0
  for (const [name, value] of variables) bytes += name.length + Buffer.byteLength(value) + 2
  if (bytes > maxBytes) throw new CodedError('ENV_CONTENT_TOO_LONG', `The variables have more than ${maxBytes} bytes.`)
}

function assertName(name: unknown): asserts name is string {
  if (typeof name !== 'string') throw new CodedError('INVALID_ENV_CONTENT')
  if (!isLengthWithin(name, 0, variableLimits.nameCharacters)) throw new CodedError('ENV_NAME_TOO_LONG')
  if (!legalName.test(name)) throw new CodedError('INVALID_ENV_CONTENT')
}

/** A name in a sentence. */
const shown = (name: string): string => (name.length > 64 ? `${name.slice(0, 64)}…` : name)

/** Adds or replaces variables; the others stay. */
export const merged = (before: Variables, given: Variables): Variables => new Map([...before, ...given])
