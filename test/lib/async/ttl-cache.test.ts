import test from 'ava'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'

test('an answer is computed once for all callers within its time', async t => {
  const cache = new TtlCache<number>(60)
  let asked = 0
  const ask = async () => ++asked
  t.deepEqual(await Promise.all([cache.of('a', ask), cache.of('a', ask)]), [1, 1])
  t.is(await cache.of('b', ask), 2)
  cache.delete('a')
  t.is(await cache.of('a', ask), 3)
  cache.clear()
  t.is(await cache.of('b', ask), 4)
})

test('an expired or failed answer is computed again', async t => {
  const old = new TtlCache<number>(0)
  let asked = 0
  const ask = async () => ++asked
  await old.of('a', ask)
  t.is(await old.of('a', ask), 2)
  const cache = new TtlCache<number>(60)
  await t.throwsAsync(
    cache.of('a', async () => {
      throw new Error('away')
    }),
    { message: 'away' },
  )
  t.is(await cache.of('a', ask), 3)
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
  let asked = 0
  const ask = async () => ++asked
  for (const key of ['a', 'b', 'c']) await cache.of(key, ask)
  t.is(await cache.of('b', ask), 2)
  t.is(await cache.of('a', ask), 4)
})
