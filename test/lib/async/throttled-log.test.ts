import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { throttledLog } from '../../../lib/async/throttled-log.ts'

test('of many texts a few are passed on in each period, and the next period says how many were left out', async t => {
  const passed: (readonly [string, number])[] = []
  const tell = throttledLog(2, 200, (text, leftOut) => passed.push([text, leftOut]))
  for (let n = 1; n <= 1000; n++) tell(`line ${n}`)
  t.deepEqual(passed, [
    ['line 1', 0],
    ['line 2', 0],
  ])
  await sleep(250)
  tell('later')
  tell('last')
  t.deepEqual(passed.slice(2), [
    ['later', 998],
    ['last', 0],
  ])
})
