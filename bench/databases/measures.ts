import { setTimeout as sleep } from 'node:timers/promises'
import { engineOf } from '../../activities/databases/engines/select.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import { customers } from '../../test/kit/databases/customers.ts'
import { inTurn } from '../kit/sides.ts'
import type { Berth, BerthDatabase } from './berth.ts'
import { benchEngines } from './engines.ts'
import { type Measured, measured } from './figures.ts'
import type { Floor } from './floor.ts'

export interface Scene {
  name: EngineName
  rounds: number
  megabytes: number
  berth: Berth
  floor: Floor
}

export const measureNames = ['creation', 'rotation', 'query', 'snapshot', 'restore'] as const
export type MeasureName = (typeof measureNames)[number]

/** A creation compared with the same steps by raw calls, from a prepared data folder; what it costs to make that folder is printed too. */
async function creation({ name, rounds, berth, floor }: Scene): Promise<Measured[]> {
  const { floor: raw, berth: own } = await inTurn(rounds, {
    floor: async () => {
      const made = await floor.create()
      await made.remove()
      return made.tookMs
    },
    berth: async () => {
      const made = await berth.create(name)
      await berth.remove(made)
      return made.tookMs
    },
  })
  return [measured({ engine: name, what: 'creation', floor: raw, berth: own, goal: { over: 500 } })]
}

/** A rotation while a customer writes: what was acknowledged must be there afterwards. */
async function rotation({ name, rounds, berth, floor }: Scene): Promise<Measured[]> {
  const database = await berth.create(name)
  const { engine, remove } = await floor.create()
  let lost = 0
  let next = 1
  const written = new Set<number>()
  try {
    const { floor: raw, berth: own } = await inTurn(rounds, {
      floor: () => floor.rotate(engine),
      berth: async () => {
        const customer = await customers[name](database.remote, database.password)
        let isOpen = true
        void customer.closed.then(() => {
          isOpen = false
        })
        const writing = (async () => {
          while (isOpen) {
            const number = next++
            try {
              await customer.write(number)
              written.add(number)
            } catch {
              // What was not acknowledged may be lost.
              return
            }
          }
        })()
        const tookMs = await berth.rotate(database)
        await Promise.race([writing, customer.closed])
        const again = await customers[name](database.remote, database.password)
        const found = new Set(await again.read())
        lost += [...written].filter(number => !found.has(number)).length
        again.end()
        return tookMs
      },
    })
    const note = `${lost} of ${written.size} acknowledged writes lost`
    return [
      measured({
        engine: name,
        what: 'rotation',
        floor: raw,
        berth: own,
        goal: { atMost: 500 },
        isMissed: lost > 0,
        note,
      }),
    ]
  } finally {
    await remove()
    await berth.remove(database)
  }
}

const queriesPerRound = 300

/** A query on an open connection, through the published port and at the container's own address. */
async function query({ name, rounds, berth }: Scene): Promise<Measured[]> {
  const database = await berth.create(name)
  const { connect } = benchEngines[name]
  const published = await connect(database.remote, database.password)
  const inside = await connect(await berth.inside(database), database.password)
  const several = (client: typeof inside) => async () => {
    const taken: number[] = []
    for (let number = 0; number < queriesPerRound; number++) {
      const startedAt = performance.now()
      await client.query()
      taken.push(performance.now() - startedAt)
    }
    return taken
  }
  try {
    const sides = await inTurn(rounds, { floor: several(inside), berth: several(published) })
    return [
      measured({
        engine: name,
        what: 'query',
        floor: sides.floor.flat(),
        berth: sides.berth.flat(),
        goal: { times: 1.1 },
      }),
    ]
  } finally {
    published.end()
    inside.end()
    await berth.remove(database)
  }
}

/** A snapshot compared with the engine's own tool on the same contents in another container. */
async function snapshot({ name, rounds, megabytes, berth, floor }: Scene): Promise<Measured[]> {
  const database = await berth.create(name)
  const { engine, remove } = await floor.create()
  try {
    await seed(name, database, megabytes)
    const client = await benchEngines[name].connect(engine.remote, engine.secrets().password)
    await client.seed(megabytes)
    client.end()
    const sides = await inTurn<'floor' | 'berth', { storedMs: number; provedMs: number }>(rounds, {
      floor: async () => {
        const took = await floor.dump(engine)
        return { storedMs: took, provedMs: took }
      },
      berth: () => berth.snapshot(database),
    })
    const of = (part: 'storedMs' | 'provedMs') => ({
      floor: sides.floor.map(figure => figure[part]),
      berth: sides.berth.map(figure => figure[part]),
    })
    return [
      measured({ engine: name, what: 'snapshot until stored', ...of('storedMs'), goal: { times: 1.3 } }),
      measured({ engine: name, what: 'snapshot until proved', ...of('provedMs'), goal: { times: 4 } }),
    ]
  } finally {
    await remove()
    await berth.remove(database)
  }
}

/** From the end of a customer's connection in a restore to the first login, compared with one stop and one start. */
async function restore({ name, rounds, megabytes, berth, floor }: Scene): Promise<Measured[]> {
  const database = await berth.create(name)
  const { engine, remove } = await floor.create()
  try {
    await seed(name, database, megabytes)
    const client = await benchEngines[name].connect(engine.remote, engine.secrets().password)
    await client.seed(megabytes)
    client.end()
    await berth.snapshot(database)
    const { floor: raw, berth: own } = await inTurn(rounds, {
      // With the same attempts: an engine ends and starts more slowly while others log in.
      floor: () =>
        downtime(name, { remote: engine.remote, password: engine.secrets().password }, () => floor.restart(engine)),
      berth: () => downtime(name, database, () => berth.restore(database)),
    })
    return [measured({ engine: name, what: 'downtime of a restore', floor: raw, berth: own, goal: { over: 500 } })]
  } finally {
    await remove()
    await berth.remove(database)
  }
}

async function seed(name: EngineName, database: BerthDatabase, megabytes: number): Promise<void> {
  const client = await benchEngines[name].connect(database.remote, database.password)
  await client.seed(megabytes)
  client.end()
}

/**
 * Attempts a login every 50 ms while the work is done, because an attempt whose first packet finds no container waits a second for its
 * second one; resolves to the longest time in ms from the beginning of a success to the end of the next one, with a refusal in it.
 */
async function downtime(
  name: EngineName,
  { remote, password }: Pick<BerthDatabase, 'remote' | 'password'>,
  work: () => Promise<unknown>,
): Promise<number> {
  const attempts: Promise<{ beganAt: number; endedAt: number; accepted: boolean }>[] = []
  const attempt = async () => {
    const beganAt = performance.now()
    const answer = await engineOf(name)
      .login(remote, password)
      .catch(() => 'no answer')
    return { beganAt, endedAt: performance.now(), accepted: answer === 'accepted' }
  }
  const probes = setInterval(() => attempts.push(attempt()), probeMs)
  try {
    // So that one succeeds before the work.
    await sleep(10 * probeMs)
    await work()
    await sleep(10 * probeMs)
  } finally {
    clearInterval(probes)
  }
  const all = await Promise.all(attempts)
  const served = all.filter(({ accepted }) => accepted)
  const refused = all.filter(({ accepted }) => !accepted).map(({ beganAt }) => beganAt)
  let longest = 0
  for (const [n, { beganAt }] of served.entries()) {
    const endedAt = Math.min(...served.slice(n + 1).map(after => after.endedAt))
    if (Number.isFinite(endedAt) && refused.some(at => at > beganAt && at < endedAt))
      longest = Math.max(longest, endedAt - beganAt)
  }
  if (longest === 0) throw new Error('The restore was not seen.')
  return longest
}

const probeMs = 50

export const measures: Record<MeasureName, (scene: Scene) => Promise<Measured[]>> = {
  creation,
  rotation,
  query,
  snapshot,
  restore,
}
