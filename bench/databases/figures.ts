import type { EngineName } from '../../policy/databases/engine.ts'
import { quantile, verdict } from '../kit/sides.ts'

/** `over`: ms over the floor. `atMost`: ms. `times`: of the floor. Of medians. */
type Goal = { over: number } | { atMost: number } | { times: number }

interface Side {
  medianMs: number
  p90Ms: number
  n: number
}

export interface Measured {
  engine: EngineName
  what: string
  floor: Side
  berth: Side
  overMs: number
  times: number
  goal: string
  met: boolean
  note?: string
}

export interface Measurement {
  engine: EngineName
  what: string
  floor: readonly number[]
  berth: readonly number[]
  goal: Goal
  /** Missed for a reason that is no time. */
  isMissed?: boolean
  note?: string
}

const sideOf = (values: readonly number[]): Side => ({
  medianMs: quantile(values, 0.5),
  p90Ms: quantile(values, 0.9),
  n: values.length,
})

/** The figures of both sides, and whether the goal was met. */
export function measured({ engine, what, floor, berth, goal, isMissed = false, note }: Measurement): Measured {
  const [raw, own] = [sideOf(floor), sideOf(berth)]
  const overMs = own.medianMs - raw.medianMs
  const times = own.medianMs / raw.medianMs
  const [words, inTime] =
    'over' in goal
      ? [`floor + ${goal.over} ms`, overMs <= goal.over]
      : 'atMost' in goal
        ? [`${goal.atMost} ms`, own.medianMs <= goal.atMost]
        : [`${goal.times} times`, times <= goal.times]
  return {
    engine,
    what,
    floor: raw,
    berth: own,
    overMs,
    times,
    goal: words,
    met: inTime && !isMissed,
    ...(note && { note }),
  }
}

const shown = (ms: number): string => (ms < 10 ? ms.toFixed(3) : ms.toFixed(0))
const side = ({ medianMs, p90Ms, n }: Side): string => `${shown(medianMs)} ms (p90 ${shown(p90Ms)}, n ${n})`

/** One line for people. */
export const lineOf = ({ engine, what, floor, berth, overMs, times, goal, met, note }: Measured): string =>
  [
    `${engine.padEnd(8)} ${what.padEnd(22)} floor ${side(floor)}   Berth ${side(berth)}`,
    `   ${overMs < 0 ? '-' : '+'} ${shown(Math.abs(overMs))} ms, ${times.toFixed(2)} times   ${verdict(goal, met)}`,
    note ? `   ${note}` : '',
  ].join('')
