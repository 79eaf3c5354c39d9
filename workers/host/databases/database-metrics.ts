import { labels } from '../../../activities/containers/port.ts'
import { databaseContainerName, databaseRole } from '../../../activities/databases/names.ts'
import { saveDatabaseMetrics } from '../../../db/databases/database-metrics.ts'
import { type HostDatabase, listDatabasesOfHost } from '../../../db/databases/databases.ts'
import type { HostMetricsOptions } from '../host-metrics.ts'
import { Sampler } from '../watch/sampler.ts'

/** Points of metrics of the databases of a host, from the containers that serve. */
export function databaseMetrics(options: Omit<HostMetricsOptions, 'sampleSeconds'>): Sampler<HostDatabase> {
  const { db, engine, hostId } = options
  return new Sampler(options, {
    async running() {
      const listed = await engine.list({ [labels.host]: hostId, [labels.role]: databaseRole })
      if (listed.length === 0) return []
      const containers = new Map(listed.map(one => [one.name, one]))
      return (await listDatabasesOfHost(db, hostId)).flatMap(row => {
        const container = containers.get(databaseContainerName(row))
        return container?.running ? [{ row, container }] : []
      })
    },
    save: points =>
      saveDatabaseMetrics(
        db,
        points.map(({ appId: databaseId, ...point }) => ({ ...point, databaseId })),
      ),
    subjectOf: databaseId => ({ databaseId }),
  })
}
