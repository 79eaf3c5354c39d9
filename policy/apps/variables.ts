import { ApiError } from '../errors.ts'
import { isWithin } from '../stated-bounds.ts'

/** An application's own variables by name. A map: every name of the pattern is one, `__proto__` and `constructor` too. */
export type Variables = ReadonlyMap<string, string>

/** Variables of an application, and characters of a name and of a value (contract 4.24). */
export const variableLimits = { most: 256, nameCharacters: 1024, valueCharacters: 4096 } as const
const legalName = /^[A-Za-z_][A-Za-z0-9_]*$/
const shownName = { type: 'string', pattern: legalName.source, maxLength: variableLimits.nameCharacters }
/** A program's arguments and environment are 2 MB at most in the kernel; past that no container starts. */
const mostBytes = 1_500_000

/** What `variablesFrom` takes, as the API document tells it. */
export const variablesShown = {
  type: 'object',
  description: `Names and values come to at most ${mostBytes} bytes.`,
  propertyNames: shownName,
  additionalProperties: { type: 'string', maxLength: variableLimits.valueCharacters },
  maxProperties: variableLimits.most,
  'x-maxBytes': mostBytes,
}

/** What `namesFrom` takes. */
export const namesShown = { type: 'array', items: shownName }

/** Variables as a caller gives them. Throws the first code that does not let them pass; messages never show a value. */
export function variablesFrom(given: unknown): Map<string, string> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new ApiError('INVALID_ENV_CONTENT')
  const variables = new Map<string, string>()
  for (const [name, value] of Object.entries(given)) {
    assertName(name)
    if (typeof value !== 'string' || /\0|\p{Surrogate}/u.test(value))
      throw new ApiError('INVALID_ENV_CONTENT', `The value of ${shown(name)} must be a text.`)
    if (!isWithin(value, 0, variableLimits.valueCharacters))
      throw new ApiError(
        'ENV_CONTENT_TOO_LONG',
        `The value of ${shown(name)} has more than ${variableLimits.valueCharacters} characters.`,
      )
    variables.set(name, value)
  }
  assertFits(variables)
  return variables
}

/** Names as a caller gives them. */
export function namesFrom(given: unknown): Set<string> {
  if (!Array.isArray(given)) throw new ApiError('INVALID_ENV_CONTENT')
  for (const name of given) assertName(name)
  return new Set(given)
}

/** Throws TOO_MANY_ENV_VARS past 256, ENV_CONTENT_TOO_LONG when no program could be started with them. */
export function assertFits(variables: Variables): void {
  if (variables.size > variableLimits.most) throw new ApiError('TOO_MANY_ENV_VARS')
  let bytes = 0
  for (const [name, value] of variables) bytes += name.length + Buffer.byteLength(value) + 2
  if (bytes > mostBytes) throw new ApiError('ENV_CONTENT_TOO_LONG', `The variables have more than ${mostBytes} bytes.`)
}

function assertName(name: unknown): asserts name is string {
  if (typeof name !== 'string') throw new ApiError('INVALID_ENV_CONTENT')
  if (!isWithin(name, 0, variableLimits.nameCharacters)) throw new ApiError('ENV_NAME_TOO_LONG')
  if (!legalName.test(name)) throw new ApiError('INVALID_ENV_CONTENT')
}

/** A name in a sentence. */
const shown = (name: string): string => (name.length > 64 ? `${name.slice(0, 64)}…` : name)

/** What a set becomes: others stay, equal names are replaced. */
export const merged = (before: Variables, given: Variables): Variables => new Map([...before, ...given])
