import { certificateFailing } from './certificate-failing.ts'
import { databaseDisk } from './database-disk.ts'
import { databaseCrashed, databaseDown } from './database-down.ts'
import { databaseMemory } from './database-memory.ts'
import { deploysWithdrawn } from './deploys-withdrawn.ts'
import { domainLapsed } from './domain-lapsed.ts'
import { domainTaken } from './domain-taken.ts'
import { domainUnproved } from './domain-unproved.ts'
import { downgradeCode } from './downgrade-code.ts'
import { downgradeRefused } from './downgrade-refused.ts'
import { invoice, invoiceLengths } from './invoice.ts'
import { memoryHigh } from './memory-high.ts'
import { memoryOut } from './memory-out.ts'
import { planEnded } from './plan-ended.ts'
import { planEnding } from './plan-ending.ts'
import { signIn } from './sign-in.ts'
import { appSnapshotsFailing, databaseSnapshotsFailing } from './snapshots-failing.ts'
import { type MailFields, type MailTemplate, type MailText, mailLocaleOf } from './template.ts'

/** Every mail template, by name. */
export const templates = {
  'app-snapshots-failing': appSnapshotsFailing,
  'certificate-failing': certificateFailing,
  'database-crashed': databaseCrashed,
  'database-disk': databaseDisk,
  'database-down': databaseDown,
  'database-memory': databaseMemory,
  'database-snapshots-failing': databaseSnapshotsFailing,
  'deploys-withdrawn': deploysWithdrawn,
  'domain-lapsed': domainLapsed,
  'domain-taken': domainTaken,
  'domain-unproved': domainUnproved,
  'downgrade-code': downgradeCode,
  'downgrade-refused': downgradeRefused,
  invoice,
  'memory-high': memoryHigh,
  'memory-out': memoryOut,
  'plan-ended': planEnded,
  'plan-ending': planEnding,
  'sign-in': signIn,
} as const

export type TemplateName = keyof typeof templates

type Fields<T extends TemplateName> = (typeof templates)[T] extends MailTemplate<infer F> ? F : never

/** Fields that must not be stored, such as codes, by template: the sender derives them from the row each time. */
type Unqueued = { 'downgrade-code': 'code'; 'sign-in': 'code' }

/** The fields that are stored with a mail of this template. */
export type QueuedFields<T extends TemplateName> = Omit<Fields<T>, T extends keyof Unqueued ? Unqueued[T] : never>

const footer = 'Berth'
/** Characters of a field that is not cut. */
const maxFieldLength = 100
/** Of those that may be longer: a name in DNS, what an authority says, an address, and a list of names. */
const fieldLengths: Readonly<Record<string, number>> = {
  hostname: 253,
  reason: 500,
  url: invoiceLengths.url,
  unsaved: 1000,
}

/** Writes a mail in the language of an account. Undefined for a template that this version does not know. */
export function writeMail(template: string, fields: MailFields, locale: string): MailText | undefined {
  if (!Object.hasOwn(templates, template)) return undefined
  const write = templates[template as TemplateName][mailLocaleOf(locale)] as (fields: MailFields) => MailText
  const { subject, text } = write(
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, harmless(value, fieldLengths[name] ?? maxFieldLength)]),
    ),
  )
  return { subject, text: `${text}\n\n-- \n${footer}\n` }
}

/** Strangers name applications and databases: no line ends, no control characters, nothing that turns the direction of what follows. */
function harmless(value: string | number, max: number): string | number {
  if (typeof value === 'number') return value
  const line = value.replace(/[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, ' ').trim()
  const letters = [...line]
  return letters.length > max ? `${letters.slice(0, max - 1).join('')}…` : line
}
