import test from 'ava'
import { CircuitBreaker } from '../../../lib/async/circuit-breaker.ts'

function scene() {
  const clock = { ms: 0 }
  const breaker = new CircuitBreaker({ failures: 3, pauseMs: 1000, now: () => clock.ms })
  const fail = (...causes: unknown[]) => {
    for (const cause of causes) breaker.enter(cause)!.fail(true)
  }
  return { clock, breaker, fail }
}

test('calls are skipped after some failures in a row, and not after fewer', t => {
  const { breaker, fail } = scene()
  fail('a', 'b')
  breaker.enter('anyone')!.succeed()
  fail('a', 'b')
  t.true(breaker.letsThrough('anyone'))
  fail('c')
  t.false(breaker.letsThrough('anyone'))
  t.is(breaker.enter('anyone'), null)
})

test('after the pause one call is a trial, which decides for all', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 999
  t.false(breaker.letsThrough('anyone'))
  clock.ms = 1000
  const trial = breaker.enter('anyone')!
  t.is(breaker.enter('other'), null, 'one only')
  trial.fail(false)
  for (const subject of ['anyone', 'other']) t.is(breaker.enter(subject), null, 'another pause')
  clock.ms = 2000
  breaker.enter('anyone')!.succeed()
  fail('a', 'b')
  t.true(breaker.letsThrough('anyone'), 'failures count from the beginning')
})

test('a trial without a verdict leaves the next call to be one', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  const trial = breaker.enter('anyone')!
  trial.abandon()
  const next = breaker.enter('anyone')!
  trial.fail(false)
  t.is(breaker.enter('anyone'), null)
  next.succeed()
  t.true(breaker.letsThrough('anyone'))
})

test('a trial that goes well lets the others through before its end, and the next failure does not', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  const trial = breaker.enter('anyone')!
  trial.progress()
  const other = breaker.enter('anyone')!
  trial.fail(false)
  t.false(breaker.letsThrough('anyone'))
  other.succeed()
  t.false(breaker.letsThrough('anyone'), 'it began before')
})

test('failures of one cause, however many, skip no calls of the others', t => {
  const { breaker, fail } = scene()
  fail(...Array(50).fill('a'))
  t.true(breaker.letsThrough('anyone'))
  fail('b')
  t.false(breaker.letsThrough('anyone'))
})

test('calls from before a pause say nothing about the time after it', t => {
  const { breaker, fail, clock } = scene()
  const [early, late] = [breaker.enter('anyone')!, breaker.enter('anyone')!]
  fail('a', 'b', 'c')
  early.succeed()
  t.false(breaker.letsThrough('anyone'))
  clock.ms = 1000
  breaker.enter('anyone')!.succeed()
  late.fail(true)
  fail('a', 'b')
  t.true(breaker.letsThrough('anyone'))
})

test('a call ends once', t => {
  const { breaker } = scene()
  const call = breaker.enter('anyone')!
  for (let times = 0; times < 4; times++) call.fail(false)
  t.true(breaker.letsThrough('anyone'))
})

test('a subject whose trials fail keeps it open for nobody else', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  for (clock.ms = 1000; clock.ms < 5000; clock.ms += 1000) {
    breaker.enter('abuser')!.fail(true)
    t.false(breaker.letsThrough('abuser'))
    t.true(breaker.letsThrough('other'))
  }
  clock.ms = 4500
  breaker.enter('other')!.fail(true)
  t.false(breaker.letsThrough('third'), 'two subjects have found the same')
  clock.ms += 1000
  breaker.enter('abuser')!.fail(true)
  breaker.enter('other')!.succeed()
  for (const subject of ['abuser', 'third']) t.true(breaker.letsThrough(subject))
})

test('a trial that takes longer than a pause keeps the others waiting no longer', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  const slow = breaker.enter('a')!
  clock.ms = 1999
  t.false(breaker.letsThrough('b'))
  clock.ms = 2000
  breaker.enter('b')!.succeed()
  slow.fail(true)
  t.true(breaker.letsThrough('c'))
})

test('a failed trial says nothing about a later time in which it is open', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  breaker.enter('abuser')!.fail(true)
  breaker.enter('other')!.succeed()
  fail('a', 'b', 'c')
  t.false(breaker.letsThrough('other'))
})
