import { z } from 'zod'
import { maxBase64Length, maxFileBytes } from '../../policy/apps/file-content.ts'
import { metricRules } from '../../policy/apps/metrics.ts'
import { engineNames } from '../../policy/databases/engine.ts'
import { languages } from '../../policy/runtimes.ts'
import { isoTime } from '../pipeline/fields.ts'

const language = z.enum(languages)
const text = z.string()
const whole = z.int()

/** Why an application is not in the state of its last successful deploy, or a database is lost, and what to do about it. */
const problem = z.object({ code: text, message: text }).optional()

const health = z
  .object({
    path: text,
    status: z.enum(['unknown', 'healthy', 'unhealthy']),
    since: isoTime.nullable(),
    /** Why it is unhealthy. */
    reason: text.nullable(),
    /** The last automatic restart for this. */
    restarted: z.object({ at: isoTime, reason: text }).nullable(),
  })
  .nullable()
  .describe('What the checks of the path HEALTH give; null for an application whose configuration names none.')

/** Shapes on the wire (contract 1.10). `optional` = omitted when unset, `nullable` = always present. */
export const appInfo = z.object({
  id: text,
  name: text,
  desc: text.optional(),
  owner: text,
  cluster: text,
  ram: whole,
  language,
  domain: text.nullable(),
  custom: text.nullable(),
  created_at: isoTime,
  /** Whether the running container was started with the current environment variables. */
  variables: z.object({ version: whole, current: z.boolean() }),
  health,
  problem,
})

const appSummary = z.object({
  id: text,
  name: text,
  desc: text.optional(),
  ram: whole,
  lang: language,
  domain: text.nullable(),
  custom: text.nullable(),
  cluster: text,
  created_at: isoTime,
})

export const createdApp = z.object({
  id: text,
  name: text,
  description: text.optional(),
  lang: language,
  ram: whole,
  cpu: whole,
  language: z.object({ name: language, version: text }),
  cluster: text,
  domain: text.optional(),
  subdomain: text.optional(),
})

const flow = z.array(z.number())
const exit = z.object({ code: whole.nullable(), oom: z.boolean(), at: isoTime }).optional()

const readable = z.object({
  cpu: text,
  ram: text,
  status: text,
  running: z.boolean(),
  storage: text,
  network: z.object({ total: text, now: text }),
  uptime: whole,
  exit,
  problem,
})

const raw = z.object({
  cpu: z.number(),
  ram: z.number(),
  status: text,
  running: z.boolean(),
  storage: whole,
  network: z.object({ total: flow, now: flow }),
  uptime: whole,
  exit,
  problem,
})

/** Texts, or numbers with `rawData=true`. */
export const resourceStats = z.union([readable, raw])

/** The same of an application. */
export const appStats = z.union([readable.extend({ health }), raw.extend({ health })])

/** Whether one of several runs, with its figures while it does. */
const runningShare = <T extends z.ZodType>(value: T) =>
  z.object({ id: text, running: z.boolean(), cpu: value.optional(), ram: value.optional() })

export const databaseShares = z.array(runningShare(text))

const share = <T extends z.ZodType>(value: T) => ({
  cpu: value,
  ram: value,
  running: z.boolean(),
  uptime: whole,
  applications: z.array(runningShare(value)),
})

export const totalStats = z.union([
  z.object({ ...share(text), network: readable.shape.network }),
  z.object({ ...share(z.number()), network: raw.shape.network }),
])

export const metricPoints = z
  .array(z.object({ date: isoTime, cpu: z.number(), ram: z.number(), net: z.array(whole).length(2) }))
  .max(metricRules.maxPoints)

const databaseSummary = z.object({
  id: text,
  name: text,
  ram: whole,
  type: z.enum(engineNames),
  cluster: text,
  created_at: isoTime,
})

export const databaseInfo = databaseSummary.extend({
  owner: text,
  port: whole,
  restorable: z
    .array(z.object({ from: text, to: text }))
    .optional()
    .describe('Of postgres: the times that it can be restored to, oldest first.'),
})

export const createdDatabase = z.object({
  id: text,
  name: text,
  memory: whole,
  cpu: z.number(),
  type: z.enum(engineNames),
  password: text,
  certificate: text.nullable(),
  connection_url: text,
  cluster: text,
})

export const profile = z.object({
  user: z.object({
    id: text,
    name: text,
    email: text,
    locale: text,
    plan: z.object({
      name: text,
      memory: z.object({ limit: whole, available: whole, used: whole }),
      duration: whole.nullable(),
    }),
    created_at: isoTime,
  }),
  applications: z.array(appSummary),
  databases: z.array(databaseSummary),
})

export const fileEntry = z.object({
  name: text,
  type: z.enum(['file', 'directory']),
  size: whole,
  /** Unix milliseconds. */
  lastModified: whole.nullable(),
})

const bytes = z.array(z.int().min(0).max(255))
const bufferShown = z.object({ type: z.literal('Buffer'), data: bytes })

/** The first form if `encoding` was requested, else the second. */
export const fileContentShown = z.union([z.object({ encoding: z.literal('base64'), data: text }), bufferShown])

const byteList = { type: 'array', items: { type: 'integer', minimum: 0, maximum: 255 }, maxItems: maxFileBytes }
const bufferTaken = {
  type: 'object',
  properties: { type: { const: 'Buffer' }, data: byteList },
  required: ['type', 'data'],
}
const contentTaken = { anyOf: [{ type: 'string', 'x-maxBytes': maxFileBytes }, byteList, bufferTaken] }
const base64Taken = {
  type: 'string',
  description: 'May contain line breaks and omit the padding.',
  contentEncoding: 'base64',
  pattern: '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$',
  maxLength: maxBase64Length,
}
const emptyList = { type: 'array', maxItems: 0 }
const unset = { type: 'null' }
const forms = (field: string, other: Record<string, object>) => [
  { properties: { [field]: contentTaken, encoding: unset, ...other }, required: [field] },
  {
    properties: { [field]: { anyOf: [base64Taken, emptyList] }, encoding: { const: 'base64' }, ...other },
    required: [field, 'encoding'],
  },
]

/** The content, already converted to bytes (`holdsFile`); clients send a text, a list of bytes, or the JSON form of a Buffer. */
export const fileContentTaken = {
  content: z.instanceof(Uint8Array<ArrayBuffer>),
  encoding: z.literal('base64').nullish(),
}

/** The forms in which a body may contain it. `buffer` is an alias of `content`, which takes precedence. */
export const fileContentForms = [...forms('content', {}), ...forms('buffer', { content: unset })]
