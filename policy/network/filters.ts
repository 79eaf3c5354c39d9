import { isIP } from 'node:net'
import { z } from 'zod'
import { canonicalNetwork } from '../../lib/addresses.ts'
import { protocols, stands } from './analytics-terms.ts'

const INVALID = 'INVALID_FILTER'

/** What is stored in lower case, except where one of our words stands for a value that is missing. */
const lower =
  (...words: readonly string[]) =>
  (value?: string) =>
    value === undefined || words.includes(value) ? value : value.toLowerCase()

const named = (names: readonly string[]) => (value?: string) =>
  names.find(name => name.toLowerCase() === value?.toLowerCase()) ?? value

/** Text of characters that a value can contain: of a header no control characters. */
const text = (max: number, characters = /^[^\p{Cc}]*$/u) =>
  z.string({ error: INVALID }).min(1, INVALID).max(max, INVALID).regex(characters, INVALID).optional()

/** Paths are stored decoded, where a client may have encoded everything but NUL, which the proxy refuses. */
const inPaths = /^[^\0]*$/u

/** Filters of analytics by name; several are combined by AND. Each equals a type of its breakdown, except `path`, a prefix, and is in the form in which values are stored. */
export const filterFields = {
  country: z
    .string({ error: INVALID })
    .regex(/^[A-Za-z]{2}$/, INVALID)
    .transform(code => code.toUpperCase())
    .optional(),
  ip: z
    .string({ error: INVALID })
    .refine(address => isIP(address) !== 0 && !address.includes('%'), INVALID)
    .transform(address => canonicalNetwork(address) ?? address)
    .optional(),
  path: text(256, inPaths),
  status: z
    .string({ error: INVALID })
    .regex(/^[1-5]\d{2}$/, INVALID)
    .optional(),
  os: text(64),
  browser: text(64),
  protocol: text(16).transform(named([...protocols, stands.unknown])),
  referer: text(255).transform(lower(stands.noReferer, stands.unknown)),
  provider: text(100),
  content_type: text(64).transform(lower(stands.unknown)),
  bot: text(64),
}

export type FilterName = keyof typeof filterFields

export const filterNames = Object.keys(filterFields) as FilterName[]

export type Filters = { [name in FilterName]?: string }
