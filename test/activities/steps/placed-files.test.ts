import test from 'ava'
import { recordActivities } from '../../../activities/records.ts'
import { readCacheVersion } from '../../../db/apps/cache-versions.ts'
import { findOperation } from '../../../db/operations/operations.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** A claimed operation, and the records of its lane, which tell `routeNow` when the route is to change. */
async function scene(routeNow: (appId: string, state: string | undefined, purges: number) => Promise<void>) {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app, operationId } = await make.app((await make.user()).id)
  const records = recordActivities({
    ...{ db, plans: defaultPlans, appsDomain: 'x.test', diskMbPer256Mb: 10, claim: () => ({ run: 'lane', step: 1 }) },
    routeNow: async appId =>
      routeNow(appId, (await findOperation(db, operationId))?.state, await readCacheVersion(db, app.id)),
  })
  const operation = (await records.claimNext(app.id, { underWay: [] }))!
  const state = async () => (await findOperation(db, operationId))?.state
  return { app, operation, records, state, purges: () => readCacheVersion(db, app.id) }
}

test('files that a deploy has placed are purged at the proxy before the deploy counts as done', async t => {
  const seen: unknown[] = []
  const { app, operation, records, state } = await scene(async (...all) => void seen.push(all))
  await records.filesServe(operation)
  t.deepEqual(seen, [[app.id, 'running', 1]])
  t.is(await state(), 'success')
})

test('a proxy that is away does not fail the deploy', async t => {
  const { operation, records, state, purges } = await scene(() => Promise.reject(new Error('away')))
  await records.filesServe(operation)
  t.is(await state(), 'success')
  t.is(await purges(), 1)
})
