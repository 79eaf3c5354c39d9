import { z } from 'zod'
import type { Db } from '../../../db/database.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { listSnapshots as findSnapshots, queueSnapshot, type SnapshotRow } from '../../../db/snapshots/snapshots.ts'
import { linkSecret } from '../../../policy/apps/snapshot-links.ts'
import { ApiError } from '../../../policy/errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { assertNotLost } from '../../pipeline/access.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { type InTransaction, idempotencyErrors, idempotencyKeyOf, oncePerKey } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import { type Linking, linkView, snapshotView } from '../../views/snapshot.ts'
import { outcomeOf, wakeLane } from '../apps/command.ts'

const text = z.string()
export const link = { url: text, key: text }
export type Link = ReturnType<typeof linkView>

/** Contract 6.17. */
export const snapshot = z.object({
  name: text,
  size: z.int(),
  modified: isoTime,
  ...link,
  version_id: text,
  runtime: text.nullable(),
  origin: z.enum(['automatic', 'manual']),
})

export const linking = ({ config }: Services): Linking => ({
  filesUrl: config.urls.files,
  secret: linkSecret(config.masterKey),
})

/** Contract 6.19: newest first, without unfinished and failed ones. */
export const listSnapshots = endpoint({
  name: 'apps.snapshots',
  method: 'GET',
  path: '/v2/apps/{appId}/snapshots',
  summary: 'List the snapshots of an application',
  auth: { scope: 'snapshots:read', permission: 'snapshots' },
  response: z.array(snapshot),
  async handle({ app }, services) {
    return (await findSnapshots(services.db, app.id)).map(row => snapshotView(row, linking(services)))
  },
})

type SnapshotCall = Pick<Call<{ scope: null; permission: 'snapshots' }>, 'app' | 'caller'>

/** Contract 6.20: answers with the link once the archive was read back, or after 90 s that it is still running. */
export const createSnapshot = endpoint({
  name: 'apps.snapshots.create',
  method: 'POST',
  path: '/v2/apps/{appId}/snapshots',
  summary: 'Create a snapshot of an application',
  auth: { scope: 'snapshots:write', permission: 'snapshots' },
  operation: true,
  response: z.object(link),
  errors: [
    ...idempotencyErrors,
    'SNAPSHOT_PROCESSING',
    'SNAPSHOT_FAILED',
    'SNAPSHOT_IN_PROGRESS',
    'RESTORE_IN_PROGRESS',
    'DAILY_SNAPSHOTS_LIMIT_REACHED',
    'CLUSTER_UNAVAILABLE',
  ],
  async handle(call, services) {
    const { app, caller, exchange } = call
    assertNotLost(app)
    await assertReachable(app.host_id, services)
    const route = `POST /v2/apps/${app.id}/snapshots`
    const request = { key: idempotencyKeyOf(exchange), route, fingerprint: '' }
    return oncePerKey<Link>({ caller, exchange }, request, services.db, async inTransaction =>
      linkView(await takeSnapshot(exchange, services, inTransaction, takingOf(call, services)), linking(services)),
    )
  },
})

/** Throws CLUSTER_UNAVAILABLE early for an operation that would only wait for its host. */
export async function assertReachable(hostId: string, { db }: Services): Promise<void> {
  if (!(await findHost(db, hostId))?.reachable) throw new ApiError('CLUSTER_UNAVAILABLE')
}

function takingOf({ app, caller }: SnapshotCall, services: Services): Taking {
  const { id: appId, owner_id: ownerId } = app
  const request = { appId, ownerId, actor: caller.user.id, origin: 'manual', accepting: true } as const
  return {
    queue: trx => queueSnapshot(trx, { ...request, plans: services.plans }),
    wake: () => wakeLane(services, app),
  }
}

export interface Taking {
  /** Stores the snapshot and its operation. */
  queue(trx: Db): Promise<SnapshotRow>
  wake(): void
}

/** Resolves to the finished snapshot. From its commit on, repeated requests are answered that it is in progress. */
export async function takeSnapshot(
  exchange: Exchange,
  services: Services,
  inTransaction: InTransaction<Link>,
  { queue, wake }: Taking,
): Promise<SnapshotRow> {
  const { row } = await inTransaction(
    async trx => {
      const row = await queue(trx)
      exchange.headers['X-Operation-Id'] = row.operation_id
      return { row, operationId: row.operation_id, answer: new ApiError('SNAPSHOT_PROCESSING') }
    },
    work => accept(services, work),
  )
  wake()
  const outcome = await outcomeOf(row.operation_id, exchange.signal, services)
  if (!outcome) throw new ApiError('SNAPSHOT_PROCESSING')
  if (outcome.state !== 'success') throw new ApiError('SNAPSHOT_FAILED', outcome.message ?? undefined)
  return row
}
