import test from 'ava'
import { listDatabaseMetrics } from '../../../../db/databases/database-metrics.ts'
import { DatabaseMetrics } from '../../../../workers/host/databases/database-metrics.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const minute = 60_000
const mb = 1024 * 1024
/** Two whole intervals ago. */
const begin = Math.floor(Date.now() / 300_000) * 300_000 - 600_000

test('each interval of a running database has one point, from the container that serves', async t => {
  const { db, serving, put, add, engine, options } = await watchedHost((await database).db)
  const one = await serving()
  const older = { id: one.id, generation: 7 }
  put(older)
  const stopped = await add({ status: 'exited' })
  const metrics = new DatabaseMetrics(options)
  engine.figures.set(`berth-db-${one.id}-7`, { cpuPercent: 90 })
  for (let n = 0; n < 20; n++) {
    engine.figures.set(one.name, { cpuPercent: n, memoryBytes: 100 * mb, networkIn: n * 10, networkOut: n })
    await metrics.round(begin + n * 15_000)
  }
  t.deepEqual(await listDatabaseMetrics(db, one.id), [], 'the interval is not over')
  await metrics.round(begin + 5 * minute)
  const point = { databaseId: one.id, at: new Date(begin), cpu: 9.5, ram: 100, netIn: 190, netOut: 19 }
  t.deepEqual(await listDatabaseMetrics(db, one.id), [point])
  t.deepEqual(await listDatabaseMetrics(db, stopped.id), [])
})

test('a database whose container cannot be read is sampled again later, and a deleted one loses only its points', async t => {
  const { db, serving, engine, options } = await watchedHost((await database).db)
  const [failing, deleted] = [await serving(), await serving()]
  const metrics = new DatabaseMetrics(options)
  engine.figures.set(failing.name, new Error('the engine hangs'))
  await metrics.round(begin)
  engine.figures.delete(failing.name)
  await metrics.round(begin + minute)
  await db('databases').where({ id: deleted.id }).delete()
  await metrics.round(begin + 5 * minute)
  t.is((await listDatabaseMetrics(db, failing.id)).length, 1)
  t.deepEqual(await listDatabaseMetrics(db, deleted.id), [])
})
