import test from 'ava'
import { countRequest, countRequests, startBlock, uncountRequest } from '../../db/limits.ts'
import type { Counter } from '../../policy/counters.ts'
import { newId } from '../../policy/ids.ts'
import { statementsOf } from '../kit/rows/plans-of.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

const counter = (name: string): Counter => ({
  key: `${name}/${newId()}`,
  allow: 10,
  perSeconds: 60,
  blockSeconds: 60,
  code: 'RATE_LIMIT',
})

test.serial(
  'requests of all accounts that arrive together share a statement, and each sees its own counters',
  async t => {
    const { db } = await database
    const [ana, ben, shared] = [counter('ana'), counter('ben'), counter('shared')]
    const calls = [[ana, shared], [ben], [shared, ana], [ana], [shared]]
    let standings: Awaited<ReturnType<typeof countRequest>>[] = []
    const sent = await statementsOf(async () => {
      standings = await Promise.all(calls.map(counters => countRequest(db, counters)))
    })
    t.is(sent.length, 1)
    const used = standings.map(each => Object.fromEntries(each.map(({ key, used }) => [key.split('/')[0], used])))
    t.deepEqual(used, [{ ana: 1, shared: 1 }, { ben: 1 }, { shared: 2, ana: 2 }, { ana: 3 }, { shared: 3 }])
  },
)

test.serial('a block of one account is not that of another whose requests arrive with its own', async t => {
  const { db } = await database
  const [ana, ben] = [counter('ana'), counter('ben')]
  await countRequests(db, [ana], 11)
  await startBlock(db, ana)
  const [ofAna, ofBen] = await Promise.all([countRequest(db, [ana]), countRequest(db, [ben])])
  t.true(ofAna[0]!.blocked_ms > 0)
  t.like(ofBen[0], { used: 1, blocked_ms: 0 })
})

test.serial('processes that count the same accounts in any order never wait for each other in a circle', async t => {
  const { db } = await database
  const counters = Array.from({ length: 12 }, (_, n) => counter(`account-${n}`))
  const inAnyOrder = (round: number) => [...counters].sort((a, b) => hash(a.key, round) - hash(b.key, round))
  // Each of them is a statement of its own, as those of several processes are.
  const counted = Promise.all(
    Array.from({ length: 400 }, (_, round) =>
      round % 5 === 0 ? uncountRequest(db, inAnyOrder(round)) : countRequests(db, inAnyOrder(round), 1),
    ),
  )
  await t.notThrowsAsync(counted)
})

const hash = (text: string, round: number): number =>
  [...text].reduce((sum, letter) => (sum * (31 + round) + letter.charCodeAt(0)) % 9973, round)
