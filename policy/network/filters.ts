import { isIP } from 'node:net'
import { z } from 'zod'

const INVALID = 'INVALID_FILTER'

/** Text without control characters, which no value of a request line or header can contain. */
const text = (max: number) =>
  z
    .string({ error: INVALID })
    .min(1, INVALID)
    .max(max, INVALID)
    .regex(/^[^\p{Cc}]*$/u, INVALID)
    .optional()

/** Filters of analytics by name; several are combined by AND. Each equals a type of its breakdown, except `path`, a prefix. */
export const filterFields = {
  country: z
    .string({ error: INVALID })
    .regex(/^[A-Za-z]{2}$/, INVALID)
    .transform(code => code.toUpperCase())
    .optional(),
  ip: z
    .string({ error: INVALID })
    .refine(address => isIP(address) !== 0, INVALID)
    .optional(),
  path: text(256),
  status: z
    .string({ error: INVALID })
    .regex(/^[1-5]\d{2}$/, INVALID)
    .optional(),
  os: text(64),
  browser: text(64),
  protocol: text(16),
  referer: text(255),
  provider: text(100),
  content_type: text(64),
  bot: text(64),
}

export type FilterName = keyof typeof filterFields

export const filterNames = Object.keys(filterFields) as FilterName[]

export type Filters = { [name in FilterName]?: string }
