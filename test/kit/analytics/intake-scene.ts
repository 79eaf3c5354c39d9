import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import type { Intake } from '../../../activities/analytics/port.ts'
import { DayBounds } from '../../../workers/analytics/day-bounds.ts'
import { IntakeRounds } from '../../../workers/analytics/intake-rounds.ts'
import { ownFolder } from '../folders.ts'
import { testAddresses } from './addresses.ts'
import { appA, lineOf, logged } from './log-lines.ts'

export const dayMs = 86_400_000
export const noon = Date.parse('2026-11-26T12:00:00Z')
const hourOf = (at: number) => `access-${new Date(at).toISOString().slice(0, 13)}.log`

/** A folder of logs, an engine, and what takes the one into the other. */
export async function intakeScene(t: ExecutionContext, { maxBytes = 1e9 } = {}) {
  const base = ownFolder(t)
  const logFolder = join(base, 'access')
  mkdirSync(logFolder)
  const folder = join(base, 'analytics')
  const engine = await openDuckDb({
    folder,
    addresses: await testAddresses(),
    onBroken: (_, error) => t.fail(String(error)),
  })
  t.teardown(() => engine.close())
  let now = noon
  const warnings: string[] = []
  const rounds = (through: Intake = engine, limit = maxBytes, bounded = engine) =>
    new IntakeRounds({
      engine: through,
      bounds: new DayBounds(bounded, folder, limit),
      logFolder,
      log: { info: () => {}, warn: (_: object, text: string) => warnings.push(text) } as never,
      now: () => now,
    })
  return {
    ...{ engine, logFolder, folder, rounds, warnings },
    setNow: (at: number) => {
      now = at
    },
    path: (at: number) => join(logFolder, hourOf(at)),
    /** Takes in everything. */
    async drain(by: IntakeRounds) {
      for (let round = 0; await by.round(); round++) if (round > 200) throw new Error('There is always more.')
    },
    async paths(at = noon) {
      const window = { from: at - 7 * dayMs, to: at + dayMs }
      const { paths } = await engine.ask({ kind: 'analytics', appId: appA, ownerId: '1', window, filters: {} })
      return Object.fromEntries(paths.map(({ type, requests }) => [type, requests]))
    },
  }
}

/** A line of application A. */
export const line = (path: string, at = noon) => `${lineOf(logged({ at, path }))}\n`
