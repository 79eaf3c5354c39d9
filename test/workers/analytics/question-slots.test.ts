import test from 'ava'
import type { Analytics, Question } from '../../../activities/analytics/port.ts'
import { Busy } from '../../../policy/network/analytics-terms.ts'
import { slottedAnalytics } from '../../../workers/analytics/question-slots.ts'

const question = (ownerId: string): Question & { kind: 'logs' } => ({
  kind: 'logs',
  appId: 'a'.repeat(24),
  ownerId,
  window: { from: 0, to: 1 },
})
const never = 600_000
// The deadlines of questions keep no process alive.
const alive = setInterval(() => {}, 1000)
test.after.always(() => clearInterval(alive))
const soon = () => new Promise(resolve => setImmediate(resolve))

/** An engine that answers when a test says so, or stops once it is interrupted. */
function heldEngine() {
  const running: { ownerId: string; end(): void }[] = []
  const engine: Analytics = {
    ask: (({ ownerId }: Question, signal?: AbortSignal) =>
      new Promise<unknown>((resolve, reject) => {
        const entry = { ownerId, end: () => finish(() => resolve([])) }
        const finish = (how: () => void) => {
          running.splice(running.indexOf(entry), 1)
          how()
        }
        running.push(entry)
        signal?.addEventListener('abort', () => finish(() => reject(new Busy('interrupted'))))
      })) as Analytics['ask'],
  }
  return { engine, running, owners: () => running.map(({ ownerId }) => ownerId) }
}

test('an owner with any number of questions occupies one slot, and another is answered immediately', async t => {
  const { engine, running, owners } = heldEngine()
  const analytics = slottedAnalytics(engine, 2, { slotMs: never, answerMs: never })
  const greedy = Array.from({ length: 50 }, () => analytics.ask(question('greedy')))
  const other = analytics.ask(question('other'))
  await soon()
  t.deepEqual(owners(), ['greedy', 'other'], 'the other has its slot while 49 wait')
  running[1]!.end()
  await other
  const third = analytics.ask(question('third'))
  await soon()
  t.deepEqual(owners(), ['greedy', 'third'])
  running[1]!.end()
  await third
  for (let n = 0; n < 50; n++) {
    t.deepEqual(owners(), ['greedy'])
    running[0]!.end()
    await soon()
  }
  await Promise.all(greedy)
})

test('with all slots taken by others, an owner waits for no second question of anybody who came earlier', async t => {
  const { engine, running, owners } = heldEngine()
  const analytics = slottedAnalytics(engine, 2, { slotMs: never, answerMs: never })
  const all = ['a', 'b', 'a', 'b', 'c'].map(owner => analytics.ask(question(owner)))
  await soon()
  t.deepEqual(owners(), ['a', 'b'])
  running[0]!.end()
  await soon()
  t.deepEqual(owners(), ['b', 'a'], 'who has asked before')
  running[0]!.end()
  await soon()
  t.deepEqual(owners(), ['a', 'c'], 'before the second question of b')
  while (running.length > 0) {
    running[0]!.end()
    await soon()
  }
  await Promise.all(all)
})

test('without a slot in time a question is refused, and one that takes too long is interrupted and frees its slot', async t => {
  const { engine, owners } = heldEngine()
  const impatient = slottedAnalytics(engine, 1, { slotMs: 20, answerMs: never })
  const stopped = new AbortController()
  const held = impatient.ask(question('a'), stopped.signal)
  await t.throwsAsync(impatient.ask(question('b')), { instanceOf: Busy })
  stopped.abort()
  await t.throwsAsync(held, { instanceOf: Busy, message: 'interrupted' })
  const hasty = slottedAnalytics(engine, 1, { slotMs: never, answerMs: 20 })
  await t.throwsAsync(hasty.ask(question('a')), { instanceOf: Busy, message: 'interrupted' })
  t.deepEqual(owners(), [])
  await t.throwsAsync(hasty.ask(question('a')), { instanceOf: Busy, message: 'interrupted' }, 'the slot was free')
})
