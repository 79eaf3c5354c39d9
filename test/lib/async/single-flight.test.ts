import test from 'ava'
import { singleFlight } from '../../../lib/async/single-flight.ts'

test('concurrent calls of one key share one, those of another key and later ones do not, even after a failure', async t => {
  const flight = singleFlight<number>()
  let calls = 0
  const work = async () => ++calls
  t.deepEqual(await Promise.all([flight('a', work), flight('a', work), flight('b', work)]), [1, 1, 2])
  const failing = async (): Promise<number> => {
    throw new Error('no answer')
  }
  const both = await Promise.allSettled([flight('a', failing), flight('a', work)])
  t.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.is(await flight('a', work), 3)
})
