import test from 'ava'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'

test('an answer is computed once for all callers within its time', async t => {
  const cache = new TtlCache<number>(60)
  let computed = 0
  const compute = async () => ++computed
  t.deepEqual(await Promise.all([cache.of('a', compute), cache.of('a', compute)]), [1, 1])
  t.is(await cache.of('b', compute), 2)
  cache.delete('a')
  t.is(await cache.of('a', compute), 3)
  cache.clear()
  t.is(await cache.of('b', compute), 4)
})

test('an expired or failed answer is computed again', async t => {
  const expiring = new TtlCache<number>(0)
  let computed = 0
  const compute = async () => ++computed
  await expiring.of('a', compute)
  t.is(await expiring.of('a', compute), 2)
  const cache = new TtlCache<number>(60)
  await t.throwsAsync(
    cache.of('a', async () => {
      throw new Error('away')
    }),
    { message: 'away' },
  )
  t.is(await cache.of('a', compute), 3)
})

test('the failure of a deleted answer does not remove a newer one', async t => {
  const cache = new TtlCache<number>(60)
  let fail!: (error: Error) => void
  const failing = cache.of(
    'a',
    () =>
      new Promise((_, reject) => {
        fail = reject
      }),
  )
  cache.delete('a')
  t.is(await cache.of('a', async () => 1), 1)
  fail(new Error('late'))
  await t.throwsAsync(failing, { message: 'late' })
  t.is(await cache.of('a', async () => 2), 1)
})

test('beyond its size the oldest answer is dropped', async t => {
  const cache = new TtlCache<number>(60, 2)
  let computed = 0
  const compute = async () => ++computed
  for (const key of ['a', 'b', 'c']) await cache.of(key, compute)
  t.is(await cache.of('b', compute), 2)
  t.is(await cache.of('a', compute), 4)
})
