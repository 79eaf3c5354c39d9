import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { aiErrors } from '../../../policy/ai/ai-errors.ts'
import { parseConfig } from '../../../policy/config.ts'
import { domainErrors } from '../../../policy/domains/domain-errors.ts'
import { type Limit, limits, linkVisits, objectCounts } from '../../../policy/limits.ts'
import { managementErrors } from '../../../policy/management-errors.ts'
import { networkErrors } from '../../../policy/network/network-errors.ts'
import { blobErrors } from '../../../policy/objects/blob-errors.ts'
import { s3Errors } from '../../../policy/s3/s3-errors.ts'
import { s3Counts } from '../../../policy/s3/s3-limits.ts'
import { aiCodes, blobCodes, eventCodes, managementCodes, s3Codes } from './codes.ts'
import { countsAsAgreed, limitsAsAgreed } from './limits.ts'
import { numbersAsAgreed, settingsAsAgreed } from './numbers.ts'
import { plansAsAgreed } from './plans.ts'

/** A limit in the words of the table. */
function withCanceller({ allow, perSeconds, by, thenBlockSeconds, shared, code }: Limit): string {
  const block = thenBlockSeconds === undefined ? '' : `, then ${thenBlockSeconds} s`
  return `${allow} in ${perSeconds} s by ${by}${shared ? ` with ${shared}` : ''}${block}${code ? ` ${code}` : ''}`
}

const allInWords = (rows: Record<string, readonly Limit[]>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(rows).map(([name, limits]) => [name, limits.map(withCanceller)]))

test('every limit has its agreed value, and there are no others', t => {
  t.deepEqual(allInWords(limits), limitsAsAgreed)
  t.deepEqual(
    allInWords({
      'objects updated': objectCounts.update,
      'objects deleted': objectCounts.delete,
      'visits of a temporary link': linkVisits.temporary,
      'visits of a snapshot link': linkVisits.snapshot,
      'visits of a share': linkVisits.share,
      'wrong passwords': linkVisits.password,
      'copies by S3': s3Counts.copies,
      'MiB that parts of S3 copy': s3Counts.copiedMiB,
      'keys deleted by S3': s3Counts.deletedKeys,
    }),
    countsAsAgreed,
  )
  t.deepEqual(
    [Object.keys(objectCounts), Object.keys(linkVisits)],
    [
      ['update', 'delete'],
      ['temporary', 'snapshot', 'share', 'password'],
    ],
  )
})

test('every plan has its agreed figures, in the order of downgrades', t => {
  const figures = [...defaultPlans].map(([name, plan]) => [
    name,
    [
      plan.memoryMb,
      plan.requestsPerMinute,
      plan.blobGb,
      plan.snapshotsPerDay,
      plan.balancerGroups,
      plan.workspaces,
      plan.workspaceMembers,
      plan.historyDays,
      plan.s3RequestsPer10s,
      plan.aiTokensPerDay,
      plan.aiContextTokens,
      plan.aiOutputTokens,
      plan.aiConcurrent,
      plan.aiPacingSeconds,
    ],
  ])
  t.deepEqual(figures, Object.entries(plansAsAgreed))
  t.is(Object.keys(defaultPlans.get('free')!).length, plansAsAgreed.free!.length, 'a figure has no column')
})

test('every code has its agreed status, and there are no others', t => {
  const byStatus = (table: Record<number, string>): Record<string, number> =>
    Object.fromEntries(
      Object.entries(table).flatMap(([status, codes]) => codes.split(/\s+/).map(code => [code, Number(status)])),
    )
  const ofProduct = (table: Record<string, readonly [number, string]>): Record<string, number> =>
    Object.fromEntries(Object.entries(table).map(([code, [status]]) => [code, status]))
  const inEvents = Object.fromEntries(eventCodes.split(/\s+/).map(code => [code, 400]))
  t.deepEqual(ofProduct(managementErrors), { ...byStatus(managementCodes), ...inEvents })
  t.deepEqual(ofProduct(blobErrors), byStatus(blobCodes))
  t.deepEqual(ofProduct(s3Errors), byStatus(s3Codes))
  t.deepEqual(ofProduct(aiErrors), byStatus(aiCodes))
})

/** How the product writes a code: thrown, refused with, put into a column, or compared with one. */
const writtenCode =
  /(?:refusal|refuse|Refused|CodedError)\(\s*'([A-Z][A-Z0-9_]+)'|\bcode\s*[:=]=*\s*'([A-Z][A-Z0-9_]+)'/g

/** Words outside the catalogue: those of success, and of Node. */
const noRefusals = /^(CONFIRM_CODE_VALIDATED|E[A-Z]+|ERR_[A-Z_]+|HPE_[A-Z_]+)$/

test('a catalogue that contains another one says the same of each code', t => {
  const contained = { ...domainErrors, ...networkErrors }
  t.like(managementErrors, contained)
})

test('every code in the sources is in a catalogue', t => {
  const catalogue = new Set([managementErrors, blobErrors, aiErrors].flatMap(Object.keys))
  const sources = ['api', 'db', 'activities', 'workflows', 'workers', 'policy'].flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => readFileSync(join(folder, name), 'utf8')),
  )
  const written = sources.flatMap(source => [...source.matchAll(writtenCode)].map(([, code, other]) => code ?? other!))
  const codes = [...new Set(written)].filter(code => !noRefusals.test(code))
  t.deepEqual(
    codes.filter(code => !catalogue.has(code)),
    [],
  )
  for (const code of eventCodes.split(/\s+/)) t.true(codes.includes(code), `${code} is written nowhere`)
})

/** What of a value are numbers, as deep as they lie; undefined when there are none. */
function numbersOf(value: unknown): unknown {
  if (typeof value === 'number') return value
  const isList = Array.isArray(value)
  if (!isList && (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype))
    return undefined
  const kept = Object.entries(value as object).flatMap(([name, inner]) => {
    const numbers = numbersOf(inner)
    return numbers === undefined ? [] : [[name, numbers] as const]
  })
  if (kept.length === 0) return undefined
  return isList ? kept.map(([, numbers]) => numbers) : Object.fromEntries(kept)
}

/** Exports that have tables of their own here, or in test/policy/runtimes.test.ts. */
const elsewhere: Record<string, readonly string[]> = {
  'limits.ts': ['limits', 'objectCounts', 'linkVisits'],
  'ai/ai-errors.ts': ['aiErrors'],
  'management-errors.ts': ['managementErrors'],
  'databases/engines.ts': ['engines'],
  'domains/domain-errors.ts': ['domainErrors'],
  'network/network-errors.ts': ['networkErrors'],
  'objects/blob-errors.ts': ['blobErrors'],
  's3/s3-errors.ts': ['s3Errors'],
  's3/s3-limits.ts': ['s3Counts'],
  'runtimes.ts': ['runtimes'],
}

/** Shapes for the API documents, made of numbers that stand in the table themselves. */
const isShape = (name: string) => name.endsWith('Shown')

/** Modules that hold texts and recipes. */
const isTexts = (module: string) => /^(pages|runtimes)\/|^mail\/(?!delivery\.ts)/.test(module)

test('every number of policy/ has its agreed value, and there are no others', async t => {
  const modules = readdirSync('policy', { recursive: true, encoding: 'utf8' }).filter(
    name => name.endsWith('.ts') && !isTexts(name),
  )
  const found: Record<string, unknown> = {}
  for (const module of modules.sort()) {
    const exported: Record<string, unknown> = await import(`../../../policy/${module}`)
    const own = Object.entries(exported).filter(([name]) => !elsewhere[module]?.includes(name) && !isShape(name))
    const numbers = numbersOf(Object.fromEntries(own))
    if (numbers !== undefined) found[module] = numbers
  }
  t.deepEqual(found, numbersAsAgreed)
})

test('every setting that affects users has its agreed default', t => {
  const usual = parseConfig({}, '/somewhere')
  for (const [name, value] of Object.entries(settingsAsAgreed)) {
    t.deepEqual(parseConfig({ [name]: value }, '/somewhere'), usual, name)
    const another = String(Number(value) > 1 ? Number(value) - 1 : Number(value) + 1)
    t.notDeepEqual(parseConfig({ [name]: another }, '/somewhere'), usual, name)
  }
})
