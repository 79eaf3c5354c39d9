import test from 'ava'
import { CircuitBreaker } from '../../../lib/async/circuit-breaker.ts'

function scene() {
  const clock = { ms: 0 }
  const breaker = new CircuitBreaker({ failures: 3, pauseMs: 1000, now: () => clock.ms })
  const fail = (...causes: unknown[]) => {
    for (const cause of causes) breaker.enter()!.fail(cause)
  }
  return { clock, breaker, fail }
}

test('calls are skipped after some failures in a row, and not after fewer', t => {
  const { breaker, fail } = scene()
  fail('a', 'b')
  breaker.enter()!.succeed()
  fail('a', 'b')
  t.true(breaker.letsThrough)
  fail('c')
  t.false(breaker.letsThrough)
  t.is(breaker.enter(), null)
})

test('after the pause one call is a trial, which decides for all', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 999
  t.false(breaker.letsThrough)
  clock.ms = 1000
  const trial = breaker.enter()!
  t.is(breaker.enter(), null, 'one only')
  trial.fail('a')
  t.is(breaker.enter(), null, 'another pause')
  clock.ms = 2000
  breaker.enter()!.succeed()
  fail('a', 'b')
  t.true(breaker.letsThrough, 'failures count from the beginning')
})

test('a trial without a verdict leaves the next call to be one', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  const trial = breaker.enter()!
  trial.abandon()
  const next = breaker.enter()!
  trial.fail('late')
  t.is(breaker.enter(), null)
  next.succeed()
  t.true(breaker.letsThrough)
})

test('a trial that goes well lets the others through before its end, and the next failure does not', t => {
  const { breaker, fail, clock } = scene()
  fail('a', 'b', 'c')
  clock.ms = 1000
  const trial = breaker.enter()!
  trial.goesWell()
  const other = breaker.enter()!
  trial.fail('a')
  t.false(breaker.letsThrough)
  other.succeed()
  t.false(breaker.letsThrough, 'it began before')
})

test('failures of one cause, however many, skip no calls of the others', t => {
  const { breaker, fail } = scene()
  fail(...Array(50).fill('a'))
  t.true(breaker.letsThrough)
  fail('b')
  t.false(breaker.letsThrough)
})

test('calls from before a pause say nothing about the time after it', t => {
  const { breaker, fail, clock } = scene()
  const [early, late] = [breaker.enter()!, breaker.enter()!]
  fail('a', 'b', 'c')
  early.succeed()
  t.false(breaker.letsThrough)
  clock.ms = 1000
  breaker.enter()!.succeed()
  late.fail('d')
  fail('a', 'b')
  t.true(breaker.letsThrough)
})

test('a call ends once', t => {
  const { breaker } = scene()
  const call = breaker.enter()!
  for (const cause of ['a', 'b', 'c', 'd']) call.fail(cause)
  t.true(breaker.letsThrough)
})
