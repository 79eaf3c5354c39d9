import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { openAddressReader } from '../../activities/analytics/addresses.ts'
import { openDuckDb } from '../../activities/analytics/duckdb.ts'
import type { Question } from '../../activities/analytics/port.ts'
import { analyticsSettings } from '../../policy/network/analytics-settings.ts'
import { Busy } from '../../policy/network/analytics-terms.ts'
import { slottedAnalytics } from '../../workers/analytics/question-slots.ts'
import { appA, appB, generatedRequests, linesOf } from '../kit/analytics/log-lines.ts'
import { assertRatios, timesAlongside } from '../kit/noise/slowdown.ts'

// How much later an account has its answers while another asks without end about an application with 1,000,000 requests.
const sliceLines = 20_000
const slices = 50
const blocks = 5
const questionsInBlock = 20
/** By part of the questions: how many times as long they may take. */
const maxRatios = [
  [0.5, 3],
  [0.95, 4],
] as const

test('an account has its answers alongside one that asks without end', async t => {
  t.timeout(1_200_000)
  const folder = await mkdtemp(join(tmpdir(), 'berth-analytics-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const addresses = await openAddressReader({ countryDatabase: null, asnDatabase: null, own: [] })
  const engine = await openDuckDb({ folder, addresses, onBroken: (_, error) => t.fail(String(error)) })
  t.teardown(() => engine.close())
  const day = '2026-11-26'
  const from = Date.parse(`${day}T00:00:00Z`)
  const window = { from, to: from + 86_400_000 }
  for (let n = 0; n < slices; n++) {
    const lines = linesOf(generatedRequests(sliceLines, from, window.to, n + 1))
    await engine.take({ day, file: `f${n}`, head: '', end: 1, lines })
  }
  const analytics = slottedAnalytics(engine, analyticsSettings({}).questions)
  const question = (appId: string, ownerId: string): Question => ({
    ...{ kind: 'analytics', appId, ownerId, window, filters: {} },
  })
  let isNoisy = false
  let isOver = false
  const done = { answered: 0, busy: 0 }
  // Ten requests of one account at a time, as from as many keys.
  const noise = Array.from({ length: 10 }, async () => {
    for (; !isOver; await sleep(isNoisy ? 0 : 20))
      if (isNoisy)
        await analytics.ask(question(appA, 'loud')).then(
          () => done.answered++,
          error => (error instanceof Busy ? done.busy++ : t.fail(String(error))),
        )
  })
  const times = await timesAlongside({
    noise: {
      pause: () => {
        isNoisy = false
      },
      goOn: () => {
        isNoisy = true
      },
    },
    ...{ blocks, actsInBlock: questionsInBlock, settleMs: 5000 },
    act: () => analytics.ask(question(appB, 'quiet')),
  })
  isOver = true
  await Promise.all(noise)
  assertRatios(t, times, maxRatios)
  t.log(`the noise: ${JSON.stringify(done)}`)
  t.true(done.answered > 0)
})
