import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Client } from 'pg'
import { admitCall, settleCall } from '../../db/ai/ai-calls.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { countRequest, countRequests } from '../../db/limits.ts'
import { batchedOverSubjects } from '../../db/shared-batches.ts'
import type { Counter } from '../../policy/counters.ts'
import { newId } from '../../policy/ids.ts'
import { newCall } from '../kit/ai/new-call.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { testDatabase } from '../kit/servers/database.ts'

const pools: Db[] = []
test.after.always('close', () => Promise.all(pools.map(pool => pool.destroy())))
const database = testDatabase()

/** A pool whose statements end after 20 s, so that nothing ends a wait but the end of the lock. */
async function patientPool(): Promise<Db> {
  const pool = openDatabase({ url: (await database).url, pool: 10, statementTimeoutMs: 20_000 })
  pools.push(pool)
  return pool
}

/** A transaction outside of Berth that holds rows, until its end. */
async function holding(sql: string, values: unknown[]): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: (await database).url })
  await client.connect()
  await client.query('begin')
  await client.query(sql, values)
  return async () => {
    await client.query('rollback')
    await client.end()
  }
}

const counter = (): Counter => ({
  key: `budget/${newId()}`,
  allow: 10,
  perSeconds: 60,
  blockSeconds: 60,
  code: 'RATE_LIMIT',
})

test('a counter that something else has locked holds up no other account, and is counted once it is free', async t => {
  const db = await patientPool()
  const [stuck, free] = [counter(), counter()]
  await countRequests(db, [stuck, free], 1)
  const release = await holding('select 1 from rate_limits where key = $1 for update', [stuck.key])
  const waiting = [countRequest(db, [stuck])]
  // With its own requests among them, again and again: more than the pool has connections.
  for (let round = 2; round < 30; round++) {
    waiting.push(countRequest(db, [stuck]))
    t.like(await countRequest(db, [free]), [{ used: round }])
  }
  await release()
  const used = (await Promise.all(waiting)).map(([state]) => state!.used)
  t.deepEqual(
    used.toSorted((a, b) => a - b),
    used.map((_, n) => n + 2),
  )
})

test('a budget that something else has locked holds up no call of another account', async t => {
  const db = await patientPool()
  const budgets = { account: 1_000_000, key: null, platform: 1_000_000_000 }
  const call = (userId: string) => newCall(userId, { budgets })
  const usage = { prompt: 10, completion: 10 }
  const [stuck, free] = [call(newId()), call(newId())]
  for (const each of [stuck, free]) await admitCall(db, each)
  const release = await holding('select 1 from ai_budgets where subject = $1 for update', [`user/${stuck.userId}`])
  const waiting: Promise<unknown>[] = [settleCall(db, stuck, usage)]
  for (let round = 0; round < 20; round++) {
    waiting.push(admitCall(db, call(stuck.userId)))
    const next = call(free.userId)
    t.deepEqual(await admitCall(db, next), { granted: 90 })
    t.true(await settleCall(db, next, usage))
  }
  await release()
  t.deepEqual(await Promise.all(waiting), [true, ...Array.from({ length: 20 }, () => ({ granted: 90 }))])
})

test('subjects share statements again once their rows are free', async t => {
  const statements: { inputs: string[]; lockMs: number }[] = []
  let isStuck = true
  const call = batchedOverSubjects<string, string>(
    async (_, inputs, lockMs) => {
      statements.push({ inputs: [...inputs], lockMs })
      if (isStuck && lockMs > 0) throw Object.assign(new Error('locked'), { code: '55P03' })
      return inputs
    },
    { subjectOf: input => input },
  )
  const pool = (() => {}) as unknown as Db
  t.deepEqual(await Promise.all([call(pool, 'ana'), call(pool, 'ben')]), ['ana', 'ben'])
  isStuck = false
  await comesTrue(() => statements.length === 3)
  t.deepEqual(await Promise.all([call(pool, 'ana'), call(pool, 'ben')]), ['ana', 'ben'])
  const [together, ...later] = statements
  t.deepEqual(together, { inputs: ['ana', 'ben'], lockMs: 250 })
  t.deepEqual(later, [
    { inputs: ['ana'], lockMs: 0 },
    { inputs: ['ben'], lockMs: 0 },
    { inputs: ['ana', 'ben'], lockMs: 250 },
  ])
})

test('a subject that only waited for a slot shares statements again', async t => {
  const statements: { inputs: string[]; lockMs: number }[] = []
  let isStuck = true
  let free = () => {}
  const slot = new Promise<void>(resolve => {
    free = resolve
  })
  const lockMs = 20
  const call = batchedOverSubjects<string, string>(
    async (_, inputs, wait) => {
      statements.push({ inputs: [...inputs], lockMs: wait })
      if (isStuck && wait > 0) throw Object.assign(new Error('locked'), { code: '55P03' })
      return inputs
    },
    { subjectOf: input => input, lockMs, slotFor: () => slot.then(() => () => {}) },
  )
  const pool = (() => {}) as unknown as Db
  const first = call(pool, 'ana')
  await comesTrue(() => statements.length === 1)
  isStuck = false
  await sleep(2 * lockMs)
  free()
  t.is(await first, 'ana')
  t.is(await call(pool, 'ana'), 'ana')
  t.deepEqual(
    statements.map(each => each.lockMs),
    [lockMs, 0, lockMs],
  )
})
