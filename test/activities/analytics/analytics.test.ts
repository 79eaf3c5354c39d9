import test, { type ExecutionContext } from 'ava'
import { type DuckDb, openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { analyticsContract } from '../../contracts/analytics.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { RecountedAnalytics } from '../../kit/fakes/recounted-analytics.ts'
import { ownFolder } from '../../kit/folders.ts'

async function openEngine(t: ExecutionContext): Promise<DuckDb> {
  const engine = await openDuckDb({
    folder: ownFolder(t),
    addresses: await testAddresses(),
    onBroken: (_day, error) => t.fail(String(error)),
  })
  t.teardown(() => engine.close())
  return engine
}

analyticsContract(test, 'the recount', async () => new RecountedAnalytics(await testAddresses()))
analyticsContract(test, 'DuckDB', openEngine)
