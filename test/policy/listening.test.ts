import test from 'ava'
import { listening } from '../../policy/listening.ts'

test('a dead line that only listens is known after 12 s at most, and tried again twice a second', t => {
  t.deepEqual(listening, { pingEveryMs: 10_000, answerWithinMs: 2000, retryMs: 500 })
})
