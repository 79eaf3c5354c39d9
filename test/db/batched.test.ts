import test from 'ava'
import { type BatchOptions, batched, NotBegun } from '../../db/batched.ts'
import type { Db } from '../../db/database.ts'
import { comesTrue } from '../kit/comes-true.ts'

const pool = (() => {}) as unknown as Db

/** A batched call whose batches finish when `end` is called, and the inputs of each batch. */
function queue(options?: BatchOptions<number>) {
  const batches: number[][] = []
  const ends: ((error?: Error) => void)[] = []
  const call = batched<number, string>(async (_, key, inputs) => {
    batches.push([...inputs])
    await new Promise<void>((resolve, reject) => ends.push(error => (error ? reject(error) : resolve())))
    return inputs.map(input => `${key} ${input}`)
  }, options)
  /** Waits for the next batch to start, and finishes it. */
  const end = async (error?: Error) => {
    await comesTrue(() => ends.length > 0)
    ends.shift()!(error)
  }
  return { batches, call: (input: number, key = 'a') => call(pool, key, input), end }
}

test('calls made while a batch runs join the next one, and each gets its own result', async t => {
  const { batches, call, end } = queue({ maxSize: 3 })
  const first = [call(1), call(2)]
  await comesTrue(() => batches.length > 0)
  const later = [3, 4, 5, 6].map(input => call(input))
  for (let n = 0; n < 3; n++) await end()
  t.deepEqual(await Promise.all([...first, ...later]), ['a 1', 'a 2', 'a 3', 'a 4', 'a 5', 'a 6'])
  t.deepEqual(batches, [[1, 2], [3, 4, 5], [6]])
})

test('a second batch runs concurrently where that is allowed, and takes the calls that the first left', async t => {
  const { batches, call, end } = queue({ maxSize: 2, maxConcurrent: 2 })
  const all = [1, 2, 3, 4, 5].map(input => call(input))
  await comesTrue(() => batches.length >= 2)
  t.deepEqual(batches, [
    [1, 2],
    [3, 4],
  ])
  for (let n = 0; n < 3; n++) await end()
  t.deepEqual(await Promise.all(all), ['a 1', 'a 2', 'a 3', 'a 4', 'a 5'])
})

test('keys do not wait for each other', async t => {
  const { batches, call, end } = queue()
  const both = [call(1, 'a'), call(2, 'b')]
  await comesTrue(() => batches.length >= 2)
  t.deepEqual(batches, [[1], [2]])
  await end()
  await end()
  t.deepEqual(await Promise.all(both), ['a 1', 'b 2'])
})

test('when a batch is refused each call runs alone, and only the wrong one fails', async t => {
  const { batches, call, end } = queue()
  const [wrong, right] = [call(1), call(2)]
  const seen = t.throwsAsync(wrong, { message: 'still wrong' })
  await end(new Error('one of them is wrong'))
  await end(new Error('still wrong'))
  await end()
  await seen
  t.is(await right, 'a 2')
  t.deepEqual(batches, [[1, 2], [1], [2]])
})

test('a lost connection fails the whole batch without a retry; the next call runs', async t => {
  const { batches, call, end } = queue()
  const lost = [call(1), call(2)].map(result => t.throwsAsync(result))
  await end(new Error('Connection terminated unexpectedly'))
  await Promise.all(lost)
  const next = call(3)
  await end()
  t.is(await next, 'a 3')
  t.deepEqual(batches, [[1, 2], [3]])
})

test('a read is repeated once after a lost connection', async t => {
  const { batches, call, end } = queue({ isRead: true })
  const read = call(1)
  await end(new Error('Connection terminated unexpectedly'))
  await end()
  t.is(await read, 'a 1')
  const lost = t.throwsAsync(call(2))
  await end(new Error('Connection terminated unexpectedly'))
  await end(new Error('Connection terminated unexpectedly'))
  await lost
  t.deepEqual(batches, [[1], [1], [2], [2]])
})

/** Inputs of an account: its number in the hundreds. */
const accountOf = (input: number) => String(Math.floor(input / 100))

test('accounts alternate in a batch: one with many calls delays only itself', async t => {
  const { batches, call, end } = queue({ maxSize: 4, accountOf })
  const first = call(100)
  await comesTrue(() => batches.length > 0)
  const later = [101, 102, 103, 104, 105, 106, 200, 300, 201].map(input => call(input))
  for (let n = 0; n < 4; n++) await end()
  await Promise.all([first, ...later])
  t.deepEqual(batches, [[100], [101, 200, 300, 201], [102, 103, 104, 105], [106]])
})

test('with more accounts than a batch holds, those that were not served for longest come first', async t => {
  const { batches, call, end } = queue({ maxSize: 2, accountOf })
  const first = call(100)
  await comesTrue(() => batches.length > 0)
  const later = [101, 102, 200, 201, 300, 301, 400].map(input => call(input))
  for (let n = 0; n < 5; n++) await end()
  await Promise.all([first, ...later])
  t.deepEqual(batches, [[100], [200, 300], [101, 400], [201, 301], [102]])
})

test('a call that waits too long for its batch is refused, and does not run', async t => {
  const { batches, call, end } = queue({
    waitsUntil: input => performance.now() + (input === 2 ? 0 : 60_000),
  })
  const first = call(1)
  await comesTrue(() => batches.length > 0)
  const [second, third] = [call(2), call(3)]
  await t.throwsAsync(second, { instanceOf: NotBegun })
  for (let n = 0; n < 2; n++) await end()
  t.deepEqual(await Promise.all([first, third]), ['a 1', 'a 3'])
  t.deepEqual(batches, [[1], [3]])
})

test('a batch waits for its slot, takes what has come meanwhile, and leaves it at its end', async t => {
  const events: string[] = []
  let enter: (() => void) | undefined
  const { batches, call, end } = queue({
    waitsUntil: input => performance.now() + (input === 3 ? 0 : 60_000),
    async slotFor(_, input) {
      await new Promise<void>(resolve => (enter = resolve))
      events.push(`entered for ${input}`)
      return () => void events.push('left')
    },
  })
  const calls = [call(1), call(2)]
  const late = t.throwsAsync(call(3), { instanceOf: NotBegun })
  await late
  await comesTrue(() => enter !== undefined)
  t.deepEqual(batches, [])
  enter!()
  await end(new Error('refused'))
  for (let n = 0; n < 2; n++) await end()
  await Promise.all(calls)
  t.deepEqual(batches, [[1, 2], [1], [2]])
  await comesTrue(() => events.length === 2)
  t.deepEqual(events, ['entered for 1', 'left'])
})
