import { parseArgs } from 'node:util'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../cli/test/test-postgres.ts'
import { openDatabase } from '../db/database.ts'
import { Supervisor } from '../workers/supervisor/supervisor.ts'
import { type Idle, idleCosts } from './growth/idle.ts'
import { type Installation, startInstallation } from './growth/installation.ts'
import { type Step, steps } from './growth/steps.ts'

/**
 * What an installation with 10,000 applications, a million operations and a million objects takes longer for than one with a hundredth
 * of each: both filled, served by processes of their own with the same settings on one Postgres that syncs, and measured in turn. Then
 * what the large one costs while nothing happens. Goals: p99 at most twice as high, and under 15 % of one core. `--step push` measures
 * only the steps whose name contains the word.
 */
const { values: given } = parseArgs({
  options: {
    apps: { type: 'string', default: '10000' },
    operations: { type: 'string', default: '1000000' },
    objects: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '200' },
    'idle-seconds': { type: 'string', default: '60' },
    step: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
})
const large = { apps: Number(given.apps), operations: Number(given.operations), objects: Number(given.objects) }
const small = {
  apps: Math.max(20, Math.ceil(large.apps / 100)), // ten of them are one account's
  operations: Math.ceil(large.operations / 100),
  objects: Math.ceil(large.objects / 100),
}
const rounds = Number(given.rounds)
const idleSeconds = Number(given['idle-seconds'])
const goals = { ratio: 2, idle: 0.15 }

interface Figures {
  step: string
  /** Milliseconds. */
  small: { p50: number; p99: number }
  large: { p50: number; p99: number }
  ratio: number
  reached: boolean
}

const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
process.once('exit', () => supervisor.kill())
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1))
const installations: Installation[] = []
try {
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {}, true)
  for (const [name, sizes] of Object.entries({ small, large }))
    installations.push(
      await startInstallation({ name, sizes, folder: `${folder}/${name}`, databaseUrl: await clone(adminUrl, name) }),
    )
  const [few, many] = installations as [Installation, Installation]
  const figures: Figures[] = []
  for (const step of steps.filter(({ name }) => name.includes(given.step))) {
    figures.push(await measure(step, few, many))
    console.error(line(figures.at(-1)!))
  }
  const idle: Idle[] = idleSeconds > 0 ? await idleCosts(supervisor, [few, many], idleSeconds) : []
  if (given.json) console.log(JSON.stringify({ large, small, rounds, figures, idle }))
  else report(figures, idle)
} finally {
  for (const installation of installations) await installation.stop()
  await supervisor.stop()
  removeThrowAway(folder)
}

async function clone(adminUrl: string, name: string): Promise<string> {
  const admin = openDatabase({ url: adminUrl, pool: 1, statementTimeoutMs: 60_000 })
  await admin.raw('create database ?? template ??', [name, templateDatabase]).finally(() => admin.destroy())
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Each time first in the one, then in the other, which changes: what else the machine does meets both. */
async function measure(step: Step, few: Installation, many: Installation): Promise<Figures> {
  const taken = new Map<Installation, number[]>([few, many].map(one => [one, []]))
  const times = step.heavy ? Math.ceil(rounds / 4) : rounds
  const warming = Math.ceil(times / 10)
  for (let n = -warming; n < times; n++)
    for (const at of n % 2 === 0 ? [few, many] : [many, few]) {
      const work = await step.prepare(at, n + warming)
      const began = performance.now()
      await work()
      if (n >= 0) taken.get(at)!.push(performance.now() - began)
      await step.after?.(at)
    }
  const [of, ofMany] = [percentiles(taken.get(few)!), percentiles(taken.get(many)!)]
  const ratio = ofMany.p99 / of.p99
  return { step: step.name, small: of, large: ofMany, ratio, reached: ratio <= goals.ratio }
}

function percentiles(values: number[]): { p50: number; p99: number } {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}

function line({ step, small, large, ratio, reached }: Figures): string {
  const pair = ({ p50, p99 }: { p50: number; p99: number }) => `${p50.toFixed(1)}, ${p99.toFixed(1)}`.padStart(16)
  return `${step.padEnd(30)}${pair(small)}${pair(large)}${ratio.toFixed(2).padStart(8)}   ${reached ? 'reached' : 'MISSED'}`
}

function report(figures: Figures[], idle: Idle[]): void {
  const number = new Intl.NumberFormat('en-US')
  console.log(
    `${number.format(small.apps)} and ${number.format(large.apps)} applications, ${number.format(large.operations)} operations, ${number.format(large.objects)} objects, ${rounds} rounds`,
  )
  console.log(`${'p50, p99 in ms'.padEnd(30)}${'small'.padStart(16)}${'large'.padStart(16)}${'p99'.padStart(8)}`)
  for (const figure of figures) console.log(line(figure))
  for (const { name, applications, processes, cores, beside } of idle) {
    const each = Object.entries(processes).map(([process, share]) => `${process} ${(share * 100).toFixed(1)}`)
    const verdict = name === 'large' ? (cores < goals.idle ? '   reached' : '   MISSED') : ''
    console.log(
      `idle, ${number.format(applications)} applications: ${(cores * 100).toFixed(1)} % of a core, Postgres and Temporal ${(beside * 100).toFixed(1)} % (${each.join(', ')})${verdict}`,
    )
  }
}
