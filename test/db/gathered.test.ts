import test from 'ava'
import type { Db } from '../../db/database.ts'
import { type Gathering, gathered } from '../../db/gathered.ts'
import { comesTrue } from '../kit/comes-true.ts'

const pool = (() => {}) as unknown as Db

/** A line whose statements end when they are told to, and what each was asked. */
function line(gathering?: Gathering) {
  const asked: number[][] = []
  const ends: ((error?: Error) => void)[] = []
  const ask = gathered<number, string>(async (_, name, turn) => {
    asked.push([...turn])
    await new Promise<void>((resolve, reject) => ends.push(error => (error ? reject(error) : resolve())))
    return turn.map(one => `${name} ${one}`)
  }, gathering)
  /** Lets the statement run that comes next, and ends it. */
  const end = async (error?: Error) => {
    await comesTrue(() => ends.length > 0)
    ends.shift()!(error)
  }
  return { asked, ask: (one: number, name = 'a') => ask(pool, name, one), end }
}

test('what comes while a statement is under way goes together into the next, and each gets its own answer', async t => {
  const { asked, ask, end } = line({ most: 3 })
  const first = [ask(1), ask(2)]
  await comesTrue(() => asked.length > 0)
  const later = [3, 4, 5, 6].map(one => ask(one))
  for (let n = 0; n < 3; n++) await end()
  t.deepEqual(await Promise.all([...first, ...later]), ['a 1', 'a 2', 'a 3', 'a 4', 'a 5', 'a 6'])
  t.deepEqual(asked, [[1, 2], [3, 4, 5], [6]])
})

test('a second statement begins beside the first where that may be, and takes what the first has left', async t => {
  const { asked, ask, end } = line({ most: 2, width: 2 })
  const all = [1, 2, 3, 4, 5].map(one => ask(one))
  await comesTrue(() => asked.length >= 2)
  t.deepEqual(asked, [
    [1, 2],
    [3, 4],
  ])
  for (let n = 0; n < 3; n++) await end()
  t.deepEqual(await Promise.all(all), ['a 1', 'a 2', 'a 3', 'a 4', 'a 5'])
})

test('names do not wait for each other', async t => {
  const { asked, ask, end } = line()
  const both = [ask(1, 'a'), ask(2, 'b')]
  await comesTrue(() => asked.length >= 2)
  t.deepEqual(asked, [[1], [2]])
  await end()
  await end()
  t.deepEqual(await Promise.all(both), ['a 1', 'b 2'])
})

test('when several are refused each asks alone, and one is refused', async t => {
  const { asked, ask, end } = line()
  const [wrong, right] = [ask(1), ask(2)]
  const seen = t.throwsAsync(wrong, { message: 'still wrong' })
  await end(new Error('one of them is wrong'))
  await end(new Error('still wrong'))
  await end()
  await seen
  t.is(await right, 'a 2')
  t.deepEqual(asked, [[1, 2], [1], [2]])
})

test('a lost connection is everybody’s, and nothing is asked again; the next one is asked', async t => {
  const { asked, ask, end } = line()
  const lost = [ask(1), ask(2)].map(one => t.throwsAsync(one))
  await end(new Error('Connection terminated unexpectedly'))
  await Promise.all(lost)
  const next = ask(3)
  await end()
  t.is(await next, 'a 3')
  t.deepEqual(asked, [[1, 2], [3]])
})
