import { type MetricPoint, metricRules } from '../../policy/apps/metrics.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

/** Stores points. The first point of an interval stays; points of missing applications are dropped. */
export async function saveMetrics(db: Db, points: readonly MetricPoint[]): Promise<void> {
  if (points.length === 0) return
  await db.raw(
    `insert into app_metrics (app_id, at, cpu, ram, net_in, net_out)
     select p."appId", p.at, p.cpu, p.ram, p."netIn", p."netOut"
       from jsonb_to_recordset(?) as p("appId" text, at timestamptz, cpu real, ram real, "netIn" bigint, "netOut" bigint)
       join apps on apps.id = p."appId"
     on conflict do nothing`,
    [JSON.stringify(points)],
  )
}

/** The points of the last 24 hours, newest first. */
export async function listMetrics(db: Db, appId: string): Promise<MetricPoint[]> {
  const rows = await db('app_metrics')
    .where({ app_id: appId })
    .whereRaw('at > now() - make_interval(hours => ?)', [metricRules.keptHours])
    .orderBy('at', 'desc')
    .limit(metricRules.maxPoints)
  return rows.map(({ at, cpu, ram, net_in, net_out }) => ({
    ...{ appId, at, cpu, ram },
    netIn: Number(net_in),
    netOut: Number(net_out),
  }))
}

/** Deletes points that are no longer shown. */
export function sweepMetrics(db: Db): Promise<number> {
  const values = { hours: metricRules.keptHours }
  return deleteExpired(db, { table: 'app_metrics', when: 'old.at < now() - make_interval(hours => :hours)', values })
}
