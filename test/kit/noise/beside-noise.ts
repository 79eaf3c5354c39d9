import type { ExecutionContext } from 'ava'
import type { TestPlatform } from '../platform/platform.ts'
import { neighbour, noTimes, p95, type Times, timeRounds } from './neighbour.ts'
import { makeNoise } from './noise.ts'

/** How many times slower a neighbour may become (p95). */
const most = 3

export interface Measured {
  /** Of the four acts of a neighbour, rounds in each block. */
  rounds: number
  /** Blocks alongside noise, and as many alone; they alternate, so that a machine which gets busier slows both down. */
  blocks: number
}

/**
 * Measures how long a neighbour's stops, starts, deploys and uploads take alone and alongside an account at its worst, and asserts that
 * none fails and that the p95 of each is within 3 times of its value alone.
 */
export async function assertQuietEnough(t: ExecutionContext, platform: TestPlatform, { rounds, blocks }: Measured) {
  const [ana, bob] = await Promise.all([platform.api.makeUser(), platform.api.makeUser()])
  const acts = await neighbour(platform, bob)
  const [alone, alongside] = [noTimes(), noTimes()]
  await timeRounds(acts, 1, noTimes()) // images, connections and compiled code are warm from here on
  await timeRounds(acts, rounds, alone)
  const noise = await makeNoise(platform, ana, { silent: 20, busy: 4 })
  for (let n = 1; ; n++) {
    const before = { ...noise.done }
    await timeRounds(acts, rounds, alongside)
    t.true(noise.done.archives > before.archives, JSON.stringify(noise.done))
    t.true((await noise.gates()) >= 8)
    if (n === blocks) break
    await noise.pause()
    await timeRounds(acts, rounds, alone)
    await noise.goOn()
  }
  t.log(`the noise so far: ${JSON.stringify(noise.done)}`)
  await noise.stop()
  const found = (Object.keys(alongside) as (keyof Times)[]).map(name => {
    const [quiet, noisy] = [p95(alone[name]), p95(alongside[name])]
    return { name, times: noisy / quiet, text: `p95 ${Math.round(quiet)} ms alone, ${Math.round(noisy)} ms alongside` }
  })
  for (const { name, times, text } of found) t.log(`${name}: ${text}, ${times.toFixed(2)} times`)
  t.deepEqual(
    found.filter(({ times }) => times > most),
    [],
  )
}
