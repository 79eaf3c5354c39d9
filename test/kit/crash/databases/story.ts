import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { labels } from '../../../../activities/containers/port.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { loop } from '../../../../lib/async/loop.ts'
import type { Answer } from '../../actors/api.ts'
import { bareDocker, bareEngine } from '../../hosts/host-remains.ts'
import { isFrozen } from '../../platform/entry.ts'
import { answered, type Case, type Victim } from './cases.ts'
import { isRunning } from './power.ts'
import { type Kept, type Kind, Rental } from './rental.ts'
import type { DatabaseStage } from './stage.ts'
import { assertNothingLeft, assertTruths } from './truths.ts'

/** The databases of a stage; the n-th lives on the n-th host, and stays from case to case until one deletes it. */
export type Rentals = (Rental | null)[]

const hostOf = (n: number) => `h${n}`

interface Asked extends Kept {
  n: number
  one: Case
  rental: Rental
  begun: number
  answer: Promise<Answer>
  after: number
  name: string
}

/**
 * Operations that run concurrently, each on a host of its own, until each host comes to the point of its case. There it dies, or stands
 * still while something else does. Afterwards everything that must be true is.
 */
export async function survive(t: ExecutionContext, stage: DatabaseStage, rentals: Rentals, cases: readonly Case[]) {
  const [{ victim }] = cases as [Case]
  const asked = await arranged(stage, rentals, cases)
  try {
    await Promise.all(asked.map(one => reached(t, stage, one)))
    await harm(t, stage, victim, asked)
    const rest = supervise(stage, asked)
    t.teardown(rest)
    const answers = await Promise.all(asked.map(({ answer }) => answer))
    const isDoubtful = victim === 'Postgres'
    const check = async () => {
      for (const [n, own] of asked.entries()) {
        const ended = { ...own, kind: own.one.kind, host: hostOf(own.n), answer: answers[n]!, isDoubtful }
        await assertTruths(t, own.rental, ended)
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
  if (!isRunning(stage.worker)) await stage.startWorker()
  const placed = await placesOf(stage, rentals, cases)
  for (const n of placed.keys()) rentals[n] = null // until it has come through
  const kept = await Promise.all(placed.map(({ rental, one }) => rental.prepare(one.kind)))
  await Promise.all(
    placed.map(async ({ rental, one }, n) => {
      if (one.point === answered) {
        await rental.rest() // what it writes would take along what nobody synced
        return awake(stage, n)
      }
      await asleep(stage, n)
      const signal: Record<string, string> = one.victim === 'host' ? {} : { CRASH_SIGNAL: 'SIGSTOP' }
      await stage.startHost(n, { CRASH_POINT: one.point, ...signal })
    }),
  )
  await stage.settle()
  let turn: Promise<unknown> = Promise.resolve()
  const asked = placed.map(({ rental, one }, n): Asked => {
    const own = { n, one, rental, ...kept[n]!, begun: rental.acknowledged.length, after: 0, name: '' }
    const asking =
      one.point === answered ? turn.then(() => answeredAlone(stage, rental, one.kind)) : rental.ask(one.kind)
    const answer = asking.finally(() => {
      own.after = rental.acknowledged.length
    })
    answer.catch(() => {})
    turn = answer
    return Object.assign(own, { answer })
  })
  for (const own of asked) {
    const { rental, answer } = own
    if (own.one.kind === 'create') {
      // It may be placed on another host, and comes to the point of that.
      if (own.one.point === answered) await answer
      own.n = await hostIndex(stage, rental)
      own.one = { ...placed[own.n]!.one, engine: rental.engine }
    }
    const { engine, kind, victim, point } = own.one
    own.name = `${engine}: ${kind}, ${victim} at ${point}`
  }
  return asked
}

/** The power of its host goes right after the answer; nothing else happens meanwhile, so that nothing else writes out what this has not. */
async function answeredAlone(stage: DatabaseStage, rental: Rental, kind: Kind): Promise<Answer> {
  await stage.settle()
  const answer = await rental.demand(kind)
  await stage.losePowerEarly(await hostIndex(stage, rental))
  return answer
}

interface Placed {
  rental: Rental
  one: Case
}

/** The database and the case of each host. What is there stays if a case has its engine, and makes room for the others. */
async function placesOf(stage: DatabaseStage, rentals: Rentals, cases: readonly Case[]): Promise<Placed[]> {
  const isCreation = cases.every(({ kind }) => kind === 'create')
  const others = [...cases]
  const places: Placed[] = []
  for (const n of cases.keys()) {
    const rental = rentals[n]
    const chosen = isCreation ? -1 : others.findIndex(({ engine }) => engine === rental?.engine)
    if (rental && chosen >= 0) places[n] = { rental, one: others.splice(chosen, 1)[0]! }
    else if (rental) {
      await awake(stage, n)
      await rental.ask('delete')
      await rental.rest()
      rentals[n] = null
    }
  }
  if (!isCreation) await Promise.all([...cases.keys()].map(n => awake(stage, n)))
  for (const [n, one] of others.entries()) {
    const rental = await Rental.open(stage, one.engine)
    if (!isCreation) await rental.prepare('stop') // hosts that have a database have no room for another
    places[isCreation ? n : await hostIndex(stage, rental)] = { rental, one }
  }
  return places
}

/** Which host has the database, or is about to. */
async function hostIndex({ platform }: DatabaseStage, rental: Rental): Promise<number> {
  const hostId = await platform.until<string>(async () => (await rental.row())?.host_id, 60, 'a place')
  for (let n = 0; ; n++) if (platform.hostId(hostOf(n)) === hostId) return n
}

async function asleep(stage: DatabaseStage, n: number): Promise<void> {
  const entry = stage.hosts[n]
  if (!isRunning(entry)) return
  entry.child.kill('SIGCONT')
  await entry.kill('SIGKILL')
}

async function awake(stage: DatabaseStage, n: number): Promise<void> {
  if (!isRunning(stage.hosts[n])) await stage.startHost(n)
}

const within = <T>(work: Promise<T>, ms: number): Promise<T | string> =>
  Promise.race([work, sleep(ms, `not within ${ms} ms`, { ref: false })])

/** The host has died at its point, or stands still there; or its operation was answered. */
async function reached(t: ExecutionContext, stage: DatabaseStage, { n, one, name, answer }: Asked): Promise<void> {
  if (one.point === answered) return void (await answer)
  const entry = stage.hosts[n]!
  let early: Answer | null = null
  void answer.then(given => {
    early = given
  })
  for (const deadline = Date.now() + 120_000; ; await sleep(20)) {
    if (one.victim === 'host' ? !isRunning(entry) : isFrozen(entry)) return
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
  if (victim === 'power') {
    await stage.losePower()
    await Promise.all(stage.hosts.map((_, n) => stage.startHost(n)))
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
    if (!isRunning(stage.worker)) await stage.startWorker()
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
