import test from 'ava'
import { listening } from '../../policy/listening.ts'

test('a dead listening connection is detected within 12 s, and reopened twice a second', t => {
  t.deepEqual(listening, { pingEveryMs: 10_000, answerWithinMs: 2000, retryMs: 500 })
})
