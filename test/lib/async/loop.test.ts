import test from 'ava'
import { Bell, loop, pause } from '../../../lib/async/loop.ts'

const never = 1_000_000

test('a pause ends when its signal aborts, or has aborted before', async t => {
  const over = new AbortController()
  const paused = pause(never, over.signal)
  over.abort()
  await paused
  await pause(never, over.signal)
  await pause(0)
  t.pass()
})

test('a loop reports the error of a round and continues until the signal aborts', async t => {
  const over = new AbortController()
  const errors: unknown[] = []
  const rounds: boolean[] = []
  let round = 0
  const work = async () => {
    if (++round === 2) throw new Error('second')
    if (round === 3) over.abort()
  }
  await loop(work, {
    signal: over.signal,
    everyMs: ({ failed, tookMs }) => {
      t.true(tookMs >= 0)
      rounds.push(failed)
      return 0
    },
    onError: error => errors.push((error as Error).message),
  })
  t.is(round, 3)
  t.deepEqual(rounds, [false, true, false])
  t.deepEqual(errors, ['second'])
})

test('a loop with an aborted signal does nothing, and an abort during a pause ends it immediately', async t => {
  const over = new AbortController()
  let rounds = 0
  const work = async () => void rounds++
  const running = loop(work, { signal: over.signal, everyMs: never, onError: error => t.fail(String(error)) })
  over.abort()
  await running
  await loop(work, { signal: over.signal, everyMs: never, onError: error => t.fail(String(error)) })
  t.is(rounds, 1)
})

test('a ring ends the pause, and one during a round skips the pause after it', async t => {
  const over = new AbortController()
  const bell = new Bell()
  let rounds = 0
  const work = async () => {
    rounds++
    if (rounds === 1) bell.ring()
    if (rounds === 2) setImmediate(bell.ring)
    if (rounds === 3) setImmediate(() => over.abort())
  }
  await loop(work, { signal: over.signal, everyMs: never, onError: error => t.fail(String(error)), bell })
  t.is(rounds, 3)
})
