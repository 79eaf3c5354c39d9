import test from 'ava'
import { around } from '../kit/crash/crash-portions.ts'
import { workerCommits, workerRecords, workerUndos } from '../kit/crash/databases/cases.ts'
import { databaseStage } from '../kit/crash/databases/stage.ts'
import type { Rentals } from '../kit/crash/databases/story.ts'
import { workerSurvives } from '../kit/crash/databases/worker-story.ts'

// Every record of the worker about a database, before and after it, also of what undoes it, and its commits whose request or answer is lost.
const started = databaseStage('redis')
const rentals: Rentals = []

for (const [kind, records] of Object.entries(workerRecords) as [keyof typeof workerCommits, string[]][]) {
  for (const point of around(...records.map(record => `records.${record}`)))
    test.serial(`the worker dies in a ${kind}: ${point}`, async t => {
      t.timeout(900_000)
      await workerSurvives(t, await started, rentals, { kind, point })
    })
  for (const after of workerCommits[kind])
    for (const loss of ['lost', 'answered'] as const)
      test.serial(`a commit of the worker in a ${kind} is ${loss}: ${after}`, async t => {
        t.timeout(900_000)
        await workerSurvives(t, await started, rentals, { kind, commit: { after, loss } })
      })
}

for (const { kind, failure, records } of workerUndos)
  for (const point of around(...records.map(record => `records.${record}`)))
    test.serial(`the worker dies in a ${kind}, ${failure}: ${point}`, async t => {
      t.timeout(900_000)
      await workerSurvives(t, await started, rentals, { kind, point, failure })
    })
