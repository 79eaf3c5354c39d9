import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'

interface Comparison {
  noise: { pause(): void; goOn(): void }
  /** Blocks alone, and as many alongside the noise. They alternate, so that a machine which gets busier slows both down. */
  blocks: number
  /** How often `act` is timed in a block. */
  actsInBlock: number
  /** Before each block, for what the change of noise has left. */
  settleMs: number
  act(): Promise<unknown>
}

interface Times {
  alone: number[]
  alongside: number[]
}

/** Milliseconds of an act alone and alongside noise; what is warm only after the first acts is not counted. */
export async function timesAlongside({ noise, blocks, actsInBlock, settleMs, act }: Comparison): Promise<Times> {
  const block = async (): Promise<number[]> => {
    const times: number[] = []
    for (let n = 0; n < actsInBlock; n++) {
      const startedAt = performance.now()
      await act()
      times.push(performance.now() - startedAt)
    }
    return times
  }
  const times: Times = { alone: [], alongside: [] }
  noise.pause()
  await block()
  for (let n = 0; n < blocks; n++) {
    noise.pause()
    await sleep(settleMs)
    times.alone.push(...(await block()))
    noise.goOn()
    await sleep(settleMs)
    times.alongside.push(...(await block()))
  }
  return times
}

/** Asserts by part of the acts how many times as long they may take alongside the noise, and logs how long they took. */
export function assertRatios(
  t: ExecutionContext,
  { alone, alongside }: Times,
  maxRatios: readonly (readonly [share: number, max: number])[],
): void {
  const at = (times: number[], share: number) => times.toSorted((a, b) => a - b)[Math.floor(times.length * share)]!
  for (const [share, max] of maxRatios) {
    const [quiet, noisy] = [at(alone, share), at(alongside, share)]
    const ratio = noisy / quiet
    t.log(`p${share * 100}: ${quiet.toFixed(2)} ms alone, ${noisy.toFixed(2)} ms alongside: ratio ${ratio.toFixed(2)}`)
    t.true(ratio <= max, `p${share * 100}: ratio ${ratio.toFixed(2)}`)
  }
}
