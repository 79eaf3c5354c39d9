import { z } from 'zod'
import { queueDatabaseRestore, queueDatabaseSnapshot } from '../../../db/databases/database-snapshots.ts'
import { queueMomentRestore } from '../../../db/databases/point-in-time/moment-restores.ts'
import { findLastRestore } from '../../../db/snapshots/restores.ts'
import { listSnapshots } from '../../../db/snapshots/snapshots.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertNotLost, coversResource } from '../../pipeline/access.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { restoreView, snapshotView } from '../../views/snapshot.ts'
import { wakeDatabaseLane } from '../apps/command.ts'
import { awaitRestore, restoreState } from '../snapshots/restore.ts'
import {
  assertReachable,
  link,
  linking,
  snapshot,
  snapshotErrors,
  snapshotOnce,
  type Taking,
} from '../snapshots/snapshots.ts'
import { databaseRestoreBody, restoreSource } from './database-restore-body.ts'

/** Contract 12.16. */
export const listDatabaseSnapshots = endpoint({
  name: 'databases.snapshots',
  method: 'GET',
  path: '/v2/databases/{databaseId}/snapshots',
  summary: 'List the snapshots of a database',
  auth: { scope: 'snapshots:read', database: true },
  response: z.array(snapshot),
  async handle({ database }, services) {
    const rows = await listSnapshots(services.db, database.id, 'database')
    return rows.map(row => snapshotView(row, linking(services)))
  },
})

/** Contract 12.17: answers once the snapshot was restored into another engine and compared, or after 90 s that it is still being made. */
export const createDatabaseSnapshot = endpoint({
  name: 'databases.snapshots.create',
  method: 'POST',
  path: '/v2/databases/{databaseId}/snapshots',
  summary: 'Create a snapshot of a database',
  auth: { scope: 'snapshots:write', database: true },
  operation: true,
  response: z.object(link),
  errors: snapshotErrors,
  handle: (call, services) => snapshotOnce(call, services, takingOf(call, services)),
})

function takingOf({ database, caller }: SnapshotCall, services: Services): Taking {
  const { id: databaseId, owner_id: ownerId } = database
  const request = { databaseId, ownerId, actor: caller.user.id, origin: 'manual', accepting: true } as const
  return {
    of: database,
    route: `POST /v2/databases/${databaseId}/snapshots`,
    queue: trx => queueDatabaseSnapshot(trx, { ...request, plans: services.plans }),
    wake: () => wakeDatabaseLane(services, database),
  }
}

type SnapshotCall = Pick<Call<{ scope: null; database: true }>, 'database' | 'caller'>

/** Contract 12.18: from any own snapshot of the same engine, also of another or a deleted database. Contract 12.25: to a moment. */
export const restoreDatabase = endpoint({
  name: 'databases.snapshots.restore',
  method: 'POST',
  path: '/v2/databases/{databaseId}/snapshots/restore',
  summary: 'Restore a database from a snapshot, or to an earlier moment',
  auth: { scope: 'snapshots:write', database: true },
  operation: true,
  body: databaseRestoreBody,
  errors: [
    'MISSING_PARAMETERS',
    'INVALID_PARAMETERS',
    'INVALID_SNAPSHOT_ID',
    'INVALID_VERSION_ID',
    'SNAPSHOT_DATABASE_MISMATCH',
    'SNAPSHOT_RESTORE_PROCESSING',
    'SNAPSHOT_NOT_FOUND',
    'SNAPSHOT_RESTORE_FAILED',
    'SNAPSHOT_IN_PROGRESS',
    'RESTORE_IN_PROGRESS',
    'CLUSTER_UNAVAILABLE',
  ],
  async handle({ database, caller, body, exchange }, services) {
    const source = restoreSource(body)
    assertNotLost(database)
    // The contents become readable in this database, so the key has to cover that one too.
    if ('name' in source && !coversResource(caller, targetOf(source.name))) throw new CodedError('RESOURCE_NOT_ALLOWED')
    await assertReachable(database.host_id, services)
    const restore = { databaseId: database.id, actor: caller.user.id, accepting: true }
    await awaitRestore(exchange, services, {
      queue: trx =>
        'to' in source
          ? queueMomentRestore(trx, { ...restore, ...source })
          : queueDatabaseRestore(trx, { ...restore, ...source }),
      wake: () => wakeDatabaseLane(services, database),
    })
  },
})

/** Id of the database that a snapshot is of. */
const targetOf = (snapshotName: string): string => snapshotName.slice(0, snapshotName.indexOf('_'))

/** Contract 12.19: the last restore, until an hour after its end. */
export const getDatabaseRestoreState = endpoint({
  name: 'databases.snapshots.restore.state',
  method: 'GET',
  path: '/v2/databases/{databaseId}/snapshots/restore',
  summary: 'Show the state of the last restore of a database',
  auth: { scope: 'snapshots:read', database: true },
  response: restoreState,
  async handle({ database }, { db }) {
    const last = await findLastRestore(db, database.id, 'database')
    return last ? restoreView(last) : { state: 'none' as const }
  },
})
