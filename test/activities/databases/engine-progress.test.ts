import test from 'ava'
import { engineProgress } from '../../../activities/databases/engines/engine-progress.ts'
import { EngineLoads, EngineUnavailable } from '../../../activities/databases/port.ts'
import { MiB } from '../../../lib/bytes.ts'
import { askingPauseMs } from '../../../policy/databases/database-steps.ts'

const away = new EngineUnavailable('It does not answer.')
const idle = { cpuPercent: 3, blockRead: 0, blockWrite: 0 }

/** An engine that is looked at every second; `work` is what its container does in each. */
function follow(work: (second: number) => typeof idle | null | Error) {
  let second = 0
  const read = async () => {
    const read = work(second)
    if (read instanceof Error) throw read
    return read
  }
  const progress = engineProgress(read, { serve: 60, load: 3600 }, () => second * 1000)
  /** Seconds until it is given up; at most two hours. */
  return async (last: (second: number) => unknown = () => away) => {
    for (; second < 7200; second++) {
      await progress.look()
      try {
        progress.demand(last(second))
      } catch (error) {
        return [second, (error as Error).message]
      }
    }
    return [second, '']
  }
}

const silent = 'The engine did not serve within 60 s: It does not answer.'
const endless = 'The engine did not serve within 1 hours: It does not answer.'

test('an engine that does nothing is given up after 60 s, also when what it does cannot be read', async t => {
  t.deepEqual(await follow(() => idle)(), [61, silent])
  t.deepEqual(await follow(() => null)(), [61, silent])
  t.deepEqual(await follow(() => new Error('The engine of containers is away.'))(), [61, silent])
  const logs = follow(second => ({ ...idle, blockWrite: second * 1000 }))
  t.deepEqual(await logs(), [61, silent], 'what it logs of our questions is no progress')
})

test('an engine whose container reads, writes or computes is waited for as long as it does, and some hours at most', async t => {
  t.deepEqual(await follow(second => ({ ...idle, blockRead: Math.min(second, 500) * 0.1 * MiB }))(), [561, silent])
  t.deepEqual(await follow(second => ({ ...idle, blockWrite: second * MiB }))(), [3601, endless])
  t.deepEqual(await follow(second => ({ ...idle, cpuPercent: second < 300 ? 100 : 9 }))(), [360, silent])
})

test('an engine whose counters restart has not lost its progress', async t => {
  const restarted = follow(second => ({ ...idle, blockRead: (second < 30 ? 1000 + second : second - 30) * MiB }))
  t.deepEqual(await restarted(), [3601, endless])
})

test('an engine that reports progress counts as making progress', async t => {
  const loading = (second: number) => new EngineLoads(`${Math.min(second, 100)} bytes`)
  t.deepEqual(await follow(() => idle)(loading), [
    161,
    'The engine did not serve within 60 s: The engine loads its data: 100 bytes.',
  ])
})

test('an engine that takes long is asked five times a second for a minute, and then ever less often', t => {
  const askedWithin = (minutes: number) => {
    let times = 0
    for (let ms = 0; ms < minutes * 60_000; ms += askingPauseMs(ms)) times++
    return times
  }
  t.true(askedWithin(0.01) > 10, 'most serve within half a second')
  t.true(askedWithin(1) > 250 && askedWithin(1) < 350)
  t.true(askedWithin(180) < 6000, 'some write a line for each time, and of these the newest 1 MB is kept')
  t.is(askingPauseMs(3 * 3_600_000), 2000)
})
