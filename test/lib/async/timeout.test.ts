import test from 'ava'
import { unlessAborted, withTimeout } from '../../../lib/async/timeout.ts'

const never = new Promise<string>(() => {})
const late = () => new Error('late')

test('a work has its time, and what fails in time fails as it does', async t => {
  t.is(await withTimeout(Promise.resolve('done'), 60_000, late), 'done')
  t.is(await withTimeout(Promise.resolve('done'), Number.POSITIVE_INFINITY, late), 'done')
  await t.throwsAsync(withTimeout(Promise.reject(new Error('mine')), 60_000, late), { message: 'mine' })
  await t.throwsAsync(withTimeout(never, 1, late), { message: 'late' })
  await t.throwsAsync(withTimeout(never, -1, late), { message: 'late' })
})

test('a signal ends the wait for a work with its reason', async t => {
  const over = new AbortController()
  const waiting = unlessAborted(never, over.signal)
  t.is(await unlessAborted(Promise.resolve('done'), over.signal), 'done')
  over.abort(new Error('cancelled'))
  await t.throwsAsync(waiting, { message: 'cancelled' })
  await t.throwsAsync(unlessAborted(Promise.resolve('done'), over.signal), { message: 'cancelled' })
})
