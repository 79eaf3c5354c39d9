import test from 'ava'
import { eachConcurrently, mapConcurrently } from '../../../lib/async/concurrently.ts'

const soon = () => new Promise<void>(resolve => setImmediate(resolve))

test('up to the given number of items run concurrently, and results have the order of their items', async t => {
  let running = 0
  let most = 0
  const results = await mapConcurrently([5, 1, 4, 2, 3], 2, async item => {
    most = Math.max(most, ++running)
    for (let turn = 0; turn < item; turn++) await soon()
    running--
    return item * 10
  })
  t.deepEqual(results, [50, 10, 40, 20, 30])
  t.is(most, 2)
  t.deepEqual(await mapConcurrently([], 2, async () => t.fail()), [])
})

test('an async iterable is consumed item by item, each once', async t => {
  async function* items() {
    for (let item = 0; item < 5; item++) {
      await soon()
      yield item
    }
  }
  const done: number[] = []
  await eachConcurrently(items(), 3, async item => {
    await soon()
    done.push(item)
  })
  t.deepEqual(done.sort(), [0, 1, 2, 3, 4])
})

test('the first rejection is the outcome, and further work continues', async t => {
  const done: number[] = []
  const work = async (item: number) => {
    if (item === 0) throw new Error('first')
    await soon()
    done.push(item)
  }
  await t.throwsAsync(eachConcurrently([0, 1, 2], 2, work), { message: 'first' })
  await soon()
  await soon()
  t.deepEqual(done, [1, 2])
})
