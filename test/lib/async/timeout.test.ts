import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import test from 'ava'
import { deadlineSignal, unlessAborted, withTimeout } from '../../../lib/async/timeout.ts'

const never = new Promise<string>(() => {})
const late = () => new Error('late')

test('work ends at its timeout, and an earlier failure is passed on', async t => {
  t.is(await withTimeout(Promise.resolve('done'), 60_000, late), 'done')
  t.is(await withTimeout(Promise.resolve('done'), Number.POSITIVE_INFINITY, late), 'done')
  await t.throwsAsync(withTimeout(Promise.reject(new Error('mine')), 60_000, late), { message: 'mine' })
  await t.throwsAsync(withTimeout(never, 1, late), { message: 'late' })
  await t.throwsAsync(withTimeout(never, -1, late), { message: 'late' })
})

test('a signal ends the wait for work with its reason', async t => {
  const over = new AbortController()
  const waiting = unlessAborted(never, over.signal)
  t.is(await unlessAborted(Promise.resolve('done'), over.signal), 'done')
  over.abort(new Error('cancelled'))
  await t.throwsAsync(waiting, { message: 'cancelled' })
  await t.throwsAsync(unlessAborted(Promise.resolve('done'), over.signal), { message: 'cancelled' })
})

test('a deadline aborts the joined signal, even after a garbage collection', async t => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const other = new AbortController()
  // Only its listener references the signal, as in a request.
  const ended = new Promise(resolve => {
    const signal = deadlineSignal(300, other.signal)
    signal.addEventListener('abort', () => resolve((signal.reason as DOMException).name), { once: true })
  })
  const giveUp = setTimeout(() => other.abort(new DOMException('never', 'NeverError')), 20_000)
  for (let round = 0; round < 5; round++) {
    await new Promise(resolve => setTimeout(resolve, 20))
    collect()
  }
  t.is(await ended, 'TimeoutError')
  clearTimeout(giveUp)
})

test('a deadline signal aborts with the signals that it joins', t => {
  const [one, other] = [new AbortController(), new AbortController()]
  const signal = deadlineSignal(3_600_000, one.signal, other.signal)
  t.false(signal.aborted)
  other.abort(new Error('cancelled'))
  t.is(signal.reason.message, 'cancelled')
})
