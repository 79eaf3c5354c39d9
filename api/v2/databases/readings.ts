import { z } from 'zod'
import { listDatabaseMetrics } from '../../../db/databases/database-metrics.ts'
import { listDatabases } from '../../../db/databases/databases.ts'
import { findFailedStart } from '../../../db/operations/operation-lookups.ts'
import { mapConcurrently } from '../../../lib/async/concurrently.ts'
import { awaitsStart, problemOfStart } from '../../../policy/databases/database-problems.ts'
import { recentCrash } from '../../../policy/databases/restarts.ts'
import { CodedError } from '../../../policy/errors.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import { currentFigures } from '../../hosts/current-figures.ts'
import { coversResource } from '../../pipeline/access.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { flag } from '../../pipeline/fields.ts'
import { metricView } from '../../views/metrics.ts'
import { rawStatsView, shareView, statsView } from '../../views/stats.ts'
import { databaseShares, metricPoints, resourceStats } from '../schemas.ts'

const auth = { scope: 'databases:read', database: true } as const

/** Contract 12.11: while its host does not answer a database is shown as unreachable, never as stopped; one that could not be started says why, and one that was started again how it ended. */
export const getDatabaseStatus = endpoint({
  name: 'databases.status',
  method: 'GET',
  path: '/v2/databases/{databaseId}/status',
  summary: 'Show the current resource usage of a database',
  auth,
  query: z.object({ rawData: flag }),
  response: resourceStats,
  async handle({ database, query }, services) {
    const figures = { ...(await currentFigures(database, services)) }
    const failed = !figures.running && awaitsStart(database) && (await findFailedStart(services.db, database))
    if (failed) figures.problem = problemOfStart(database, failed)
    const crash = figures.running && recentCrash(database, new Date())
    if (crash) figures.exit = { ...crash.end, at: crash.end.at.toISOString() }
    return query.rawData ? rawStatsView(figures) : statsView(figures)
  },
})

/** Contract 12.12. */
export const listDatabaseStatuses = endpoint({
  name: 'databases.status.all',
  method: 'GET',
  path: '/v2/databases/status',
  summary: 'Show which databases run, and their current resource usage',
  auth: { scope: 'databases:read' },
  response: databaseShares,
  async handle({ caller }, services) {
    const databases = await listDatabases(services.db, caller.user.id)
    const covered = databases.filter(({ id }) => coversResource(caller, id))
    return mapConcurrently(covered, 32, async database =>
      shareView({ id: database.id, figures: await currentFigures(database, services) }, statsView),
    )
  },
})

/** Contract 12.13: what its engine has written, the newest 1 MB. */
export const getDatabaseLogs = endpoint({
  name: 'databases.logs',
  method: 'GET',
  path: '/v2/databases/{databaseId}/logs',
  summary: 'Read the log of a database',
  auth,
  response: z.object({ logs: z.string() }),
  errors: ['LOGS_UNAVAILABLE', 'CLUSTER_UNAVAILABLE', 'CLUSTER_TIMEOUT'],
  async handle({ database }, { hosts }) {
    const logs = await hosts.logs(database, requestCaps.logBytes)
    if (logs === null) throw new CodedError('LOGS_UNAVAILABLE')
    return { logs }
  },
})

/** Contract 12.13: points of 5 minutes, newest first. */
export const getDatabaseMetrics = endpoint({
  name: 'databases.metrics',
  method: 'GET',
  path: '/v2/databases/{databaseId}/metrics',
  summary: 'Show the resource usage of a database in the last 24 hours',
  auth,
  response: metricPoints,
  async handle({ database }, { db, metrics }) {
    return (await metrics.of(database.id, () => listDatabaseMetrics(db, database.id))).map(metricView)
  },
})
