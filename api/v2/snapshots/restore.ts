import { z } from 'zod'
import type { Db } from '../../../db/database.ts'
import { findLastRestore, queueRestore } from '../../../db/snapshots/restores.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { restoreView } from '../../views/snapshot.ts'
import { outcomeOf, wakeLane } from '../apps/command.ts'
import { assertReachable } from './snapshots.ts'

const orMissing = (code: ErrorCode) => (issue: { input: unknown }) =>
  issue.input === undefined ? 'MISSING_PARAMETERS' : code

export const restoreBody = z.object({
  snapshotId: z
    .string({ error: orMissing('INVALID_SNAPSHOT_ID') })
    .regex(/^[a-z0-9_]{1,128}$/, 'INVALID_SNAPSHOT_ID')
    .describe('The name of the snapshot.'),
  versionId: z
    .string({ error: orMissing('INVALID_VERSION_ID') })
    .regex(/^[A-Za-z0-9+/=_.-]{24,96}$/, 'INVALID_VERSION_ID'),
})

export const restoreState = z.object({
  state: z.enum(['none', 'queued', 'running', 'success', 'error']),
  step: z.string().optional(),
  code: z.enum(['SNAPSHOT_CORRUPT', 'RESTORE_INTERRUPTED', 'SNAPSHOT_RESTORE_FAILED']).optional(),
  message: z.string().optional(),
  started_at: z.int().optional(),
  finished_at: z.int().optional(),
})

/**
 * Contract 6.21. Variables are not restored: a secret that was rotated since must not come back (contract 6.22). An application whose
 * host was forgotten moves to another one this way.
 */
export const restoreApp = endpoint({
  name: 'apps.snapshots.restore',
  method: 'POST',
  path: '/v2/apps/{appId}/snapshots/restore',
  summary: 'Restore files and configuration of an application from a snapshot, but not its variables',
  auth: { scope: 'snapshots:write', permission: 'snapshots' },
  operation: true,
  body: restoreBody,
  errors: [
    'MISSING_PARAMETERS',
    'INVALID_SNAPSHOT_ID',
    'INVALID_VERSION_ID',
    'SNAPSHOT_RESTORE_PROCESSING',
    'SNAPSHOT_NOT_FOUND',
    'SNAPSHOT_RESTORE_FAILED',
    'SNAPSHOT_IN_PROGRESS',
    'RESTORE_IN_PROGRESS',
    'CLUSTER_UNAVAILABLE',
    'INSUFFICIENT_MEMORY',
    'CLUSTER_SELECTION_FAILED',
    'CLUSTER_MAINTENANCE_TRY_LATER',
  ],
  async handle({ app, caller, body, exchange }, services) {
    const { snapshotId: name, versionId: version } = body
    if (!name.startsWith(`${app.id}_`)) throw new CodedError('INVALID_SNAPSHOT_ID')
    // An application that was lost with its host moves to another one.
    if (app.lost_with !== app.host_id) await assertReachable(app.host_id, services)
    const { plans, config } = services
    const place = { plans, diskMbPer256Mb: config.host.diskMbPer256Mb }
    const restore = { appId: app.id, actor: caller.user.id, name, version, place, accepting: true }
    await awaitRestore(exchange, services, {
      queue: trx => queueRestore(trx, restore),
      wake: () => wakeLane(services, app),
    })
  },
})

export interface Restoring {
  /** Stores the restore. */
  queue(trx: Db): Promise<{ id: string }>
  wake(): void
}

/** Resolves once a restore has succeeded. Throws SNAPSHOT_RESTORE_PROCESSING after 90 s, SNAPSHOT_RESTORE_FAILED with the reason. */
export async function awaitRestore(exchange: Exchange, services: Services, { queue, wake }: Restoring): Promise<void> {
  const { operationId } = await accept(services, async trx => {
    const { id } = await queue(trx)
    return { operationId: id }
  })
  exchange.headers['X-Operation-Id'] = operationId
  wake()
  const outcome = await outcomeOf(operationId, exchange.signal, services)
  if (!outcome) throw new CodedError('SNAPSHOT_RESTORE_PROCESSING')
  if (outcome.state !== 'success') throw new CodedError('SNAPSHOT_RESTORE_FAILED', restoreView(outcome).message)
}

/** Contract 6.23: the last restore, until an hour after its end. */
export const getRestoreState = endpoint({
  name: 'apps.snapshots.restore.state',
  method: 'GET',
  path: '/v2/apps/{appId}/snapshots/restore',
  summary: 'Show the state of the last restore of an application',
  auth: { scope: 'snapshots:read', permission: 'snapshots' },
  response: restoreState,
  async handle({ app }, { db }) {
    const last = await findLastRestore(db, app.id)
    return last ? restoreView(last) : { state: 'none' as const }
  },
})
