import { type MetricPoint, metricRules } from '../../policy/apps/metrics.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

/** A point of a database, with the units of an application's. */
export type DatabasePoint = Omit<MetricPoint, 'appId'> & { databaseId: string }

/** Stores points. The first point of an interval stays; points of missing databases are dropped. */
export async function saveDatabaseMetrics(db: Db, points: readonly DatabasePoint[]): Promise<void> {
  if (points.length === 0) return
  await db.raw(
    `insert into database_metrics (database_id, at, cpu, ram, net_in, net_out)
     select p."databaseId", p.at, p.cpu, p.ram, p."netIn", p."netOut"
       from jsonb_to_recordset(?) as p("databaseId" text, at timestamptz, cpu real, ram real, "netIn" bigint, "netOut" bigint)
       join databases on databases.id = p."databaseId"
     on conflict do nothing`,
    [JSON.stringify(points)],
  )
}

/** The points of the last 24 hours, newest first. */
export async function listDatabaseMetrics(db: Db, databaseId: string): Promise<DatabasePoint[]> {
  const rows = await db('database_metrics')
    .where({ database_id: databaseId })
    .whereRaw('at > now() - make_interval(hours => ?)', [metricRules.keptHours])
    .orderBy('at', 'desc')
    .limit(metricRules.maxPoints)
  return rows.map(({ at, cpu, ram, net_in, net_out }) => ({
    ...{ databaseId, at, cpu, ram },
    netIn: Number(net_in),
    netOut: Number(net_out),
  }))
}

/** Deletes points that are no longer shown. */
export function sweepDatabaseMetrics(db: Db): Promise<number> {
  const values = { hours: metricRules.keptHours }
  return deleteExpired(db, {
    table: 'database_metrics',
    when: 'old.at < now() - make_interval(hours => :hours)',
    values,
  })
}
