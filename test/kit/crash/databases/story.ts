import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { labels } from '../../../../activities/containers/port.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { loop } from '../../../../lib/async/loop.ts'
import type { Answer } from '../../actors/api.ts'
import { bareDocker, bareEngine } from '../../hosts/host-remains.ts'
import { type Entry, isFrozen } from '../../platform/entry.ts'
import type { Case, Victim } from './cases.ts'
import { Rental } from './rental.ts'
import type { DatabaseStage } from './stage.ts'
import { assertNothingLeft, assertTruths } from './truths.ts'

/** The databases of a stage; the n-th lives on the n-th host, and stays from case to case until one deletes it. */
export type Rentals = (Rental | null)[]

const hostOf = (n: number) => `h${n}`

/** Redis syncs once a second, and may wait as long again for a disk that is busy. */
const lossMs = { redis: 2000, postgres: 0, mysql: 0 } as const

interface Asked {
  n: number
  one: Case
  rental: Rental
  before: number
  answer: Promise<Answer>
  after: number
  name: string
}

/**
 * Operations that run side by side, each on a host of its own, until each host comes to the point of its case. There it dies, or stands
 * still while something else does. Afterwards everything that must be true is.
 */
export async function survive(t: ExecutionContext, stage: DatabaseStage, rentals: Rentals, cases: readonly Case[]) {
  const [{ victim }] = cases as [Case]
  const asked = await arranged(stage, rentals, cases)
  try {
    await Promise.all(asked.map(one => reached(t, stage, one)))
    const at = Date.now()
    await harm(t, stage, victim, asked)
    const rest = supervise(stage, asked)
    t.teardown(rest)
    const answers = await Promise.all(asked.map(({ answer }) => answer))
    const isDoubtful = victim === 'Postgres'
    const check = async () => {
      for (const [n, { one, rental, before, after, name }] of asked.entries()) {
        const lost = victim === 'engine' ? lossMs[stage.engine] : 0
        const own = { kind: one.kind, host: hostOf(asked[n]!.n), at, lossMs: lost, before, after, name, isDoubtful }
        await assertTruths(t, rental, { ...own, answer: answers[n]! })
      }
    }
    await check()
    await rest()
    await Promise.all(asked.map(({ rental }) => rental.rest()))
    for (const { n, rental, name } of asked)
      if (await rental.row()) rentals[n] = rental
      else await assertNothingLeft(stage, hostOf(n), name)
  } finally {
    await Promise.all(asked.map(({ rental }) => rental.rest()))
    // What has not come through makes room for the next case.
    for (const { n, rental } of asked)
      if (!rentals[n]) await rental.ask('delete').catch(ignoreError('the case has failed'))
  }
}

/** Databases in the state that their operations begin in, on hosts that will come to the points; and the operations, asked for. */
async function arranged(stage: DatabaseStage, rentals: Rentals, cases: readonly Case[]): Promise<Asked[]> {
  const { platform } = stage
  if (!stage.worker || stage.worker.child.exitCode !== null) await stage.startWorker()
  const indexes = cases.map((_, n) => n)
  const isCreation = cases.every(({ kind }) => kind === 'create')
  if (!isCreation) await Promise.all(indexes.map(n => awake(stage, n)))
  else {
    for (const n of indexes) {
      const rental = rentals[n]
      if (!rental) continue
      await awake(stage, n)
      await rental.ask('delete')
      await rental.rest()
      rentals[n] = null
    }
  }
  const kept: number[] = []
  const made: Rental[] = []
  const missing = indexes.filter(n => !rentals[n])
  for (const n of indexes.filter(index => rentals[index])) made[n] = rentals[n]!
  for (const n of missing) {
    const rental = await Rental.open(stage)
    if (isCreation) made[n] = rental
    else {
      // Hosts that have a database have no room for another.
      await rental.prepare('stop')
      const hostId = (await rental.row())!.host_id
      made[indexes.find(other => platform.hostId(hostOf(other)) === hostId)!] = rental
    }
  }
  for (const n of indexes) rentals[n] = null // until it has come through
  await Promise.all(indexes.map(async n => (kept[n] = await made[n]!.prepare(cases[n]!.kind))))
  await Promise.all(
    indexes.map(async n => {
      await asleep(stage, n)
      const signal: Record<string, string> = cases[n]!.victim === 'host' ? {} : { CRASH_SIGNAL: 'SIGSTOP' }
      await stage.startHost(n, { CRASH_POINT: cases[n]!.point, ...signal })
    }),
  )
  const asked: Asked[] = []
  const nameOf = ({ kind, point, victim }: Case) => `${stage.engine}: ${kind}, ${victim} at ${point}`
  for (const n of indexes) {
    const rental = made[n]!
    const one: Asked = {
      n,
      one: cases[n]!,
      rental,
      before: kept[n]!,
      after: 0,
      answer: rental.ask(cases[n]!.kind),
      name: '',
    }
    one.answer = one.answer.finally(() => {
      one.after = rental.acknowledged.length
    })
    one.answer.catch(() => {})
    if (isCreation) {
      const placed = async () => (await rental.row())?.host_id
      const hostId = await platform.until<string>(placed, 60, 'a place')
      one.n = indexes.find(other => platform.hostId(hostOf(other)) === hostId)!
      one.one = cases[one.n]!
    }
    one.name = nameOf(one.one)
    asked.push(one)
  }
  return asked
}

const runs = (entry: Entry | null | undefined): entry is Entry =>
  !!entry && entry.child.exitCode === null && entry.child.signalCode === null

async function asleep(stage: DatabaseStage, n: number): Promise<void> {
  const entry = stage.hosts[n]
  if (!runs(entry)) return
  entry.child.kill('SIGCONT')
  await entry.kill('SIGKILL')
}

async function awake(stage: DatabaseStage, n: number): Promise<void> {
  if (!runs(stage.hosts[n])) await stage.startHost(n)
}

const within = <T>(work: Promise<T>, ms: number): Promise<T | string> =>
  Promise.race([work, sleep(ms, `not within ${ms} ms`, { ref: false })])

/** The host has died at its point, or stands still there. */
async function reached(t: ExecutionContext, stage: DatabaseStage, { n, one, name, answer }: Asked): Promise<void> {
  const entry = stage.hosts[n]!
  let early: Answer | null = null
  void answer.then(given => {
    early = given
  })
  for (const deadline = Date.now() + 120_000; ; await sleep(20)) {
    if (one.victim === 'host' ? !runs(entry) : isFrozen(entry)) return
    const words = early ? `was answered ${(early as Answer).status} ${(early as Answer).text}` : 'goes on'
    if (Date.now() < deadline && !(early && one.kind !== 'delete')) continue
    t.fail(`${name}: the host never comes there; the operation ${words}: ${entry.output().slice(-1000)}`)
    return
  }
}

/** Does the harm, and starts again what was killed. */
async function harm(t: ExecutionContext, stage: DatabaseStage, victim: Victim, asked: readonly Asked[]): Promise<void> {
  const frozen = asked.map(({ n }) => stage.hosts[n]!)
  const goOn = () => {
    for (const entry of frozen) entry.child.kill('SIGCONT')
  }
  if (victim === 'host') {
    await Promise.all(asked.map(({ n }) => stage.startHost(n)))
    return
  }
  if (victim === 'replaced host') {
    await Promise.all(asked.map(async ({ n }) => (stage.hosts[n] = await stage.takeOver(n))))
    // Between a check and its effect no check would help: it must never wake.
    for (const [n, { name }] of asked.entries()) t.is(await within(frozen[n]!.ended, 20_000), 'SIGKILL', name)
    return
  }
  if (victim === 'engine') await Promise.all(asked.map(({ n }) => killEngines(stage.platform.hostId(hostOf(n)))))
  if (victim === 'worker') {
    await stage.worker?.kill('SIGKILL')
    await stage.startWorker()
  }
  if (victim === 'Temporal') await stage.killTemporal('kept')
  if (victim === 'emptied Temporal') await stage.killTemporal('emptied')
  if (victim === 'Postgres') await stage.killPostgres()
  goOn()
}

/** Starts processes again that end because what they need is away, as the supervisor of an installation does; until it is called. */
function supervise(stage: DatabaseStage, asked: readonly Asked[]): () => Promise<void> {
  const ending = new AbortController()
  const look = async () => {
    if (!runs(stage.worker)) await stage.startWorker()
    for (const { n } of asked) await awake(stage, n)
  }
  const looking = loop(look, { signal: ending.signal, everyMs: 500, onError: ignoreError('it is tried again') })
  return async () => {
    ending.abort()
    await looking
  }
}

/** Ends everything that runs in containers of a host, at once. */
async function killEngines(hostId: string): Promise<void> {
  for (const { id, running } of await bareEngine.list({ [labels.host]: hostId }))
    if (running)
      await bareDocker
        .getContainer(id)
        .kill({ signal: 'SIGKILL' })
        .catch(() => {}) // it has just ended
}
