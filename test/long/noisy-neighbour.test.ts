import test from 'ava'
import { makeNoise, neighbour } from '../kit/noise.ts'
import { testPlatform } from '../kit/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: { a: { HOST_MEMORY_MB: '65536' } }, settings: { HEALTH_GATE_SECONDS: '1000' } })

const rounds = 20
const most = 3

type Times = Record<string, number[]>

/** The 95th of a hundred, in ms. */
const p95 = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.95) - 1]!

test.serial('beside an account at its worst the p95 of another is within 3 times of what it is alone', async t => {
  t.timeout(30 * 60_000)
  const platform = await started
  const [ana, bob] = await Promise.all([platform.api.makeUser(), platform.api.makeUser()])
  const app = await platform.deploy(bob, nodeProgram('at your service'))
  const acts = neighbour(platform, bob, app)
  const timed = async (times: Times, name: string, act: () => Promise<unknown>) => {
    const begun = performance.now()
    const value = await act()
    times[name] = [...(times[name] ?? []), performance.now() - begun]
    return value
  }
  const measure = async (): Promise<Times> => {
    const times: Times = {}
    for (let n = 0; n < rounds; n++) {
      await timed(times, 'stop', acts.stop)
      await timed(times, 'start', acts.start)
      await timed(times, 'deploy', acts.deploy)
      let made: Awaited<ReturnType<typeof acts.upload>> | undefined
      await timed(times, 'upload', async () => {
        made = await acts.upload()
      })
      await acts.remove(made!)
    }
    return times
  }
  const before = await measure()
  const noise = await makeNoise(platform, ana, { silent: 20 })
  const beside = await measure()
  await noise.stop()
  const after = await measure()
  for (const [name, times] of Object.entries(beside)) {
    const alone = p95([...before[name]!, ...after[name]!])
    const ratio = p95(times) / alone
    t.log(`${name}: p95 ${Math.round(alone)} ms alone, ${Math.round(p95(times))} ms beside, ${ratio.toFixed(2)} times`)
    t.true(ratio <= most, name)
  }
})
