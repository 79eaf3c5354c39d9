import { z } from 'zod'
import type { AppRow } from '../../../db/apps/app-rows.ts'
import type { Db } from '../../../db/database.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import {
  findSnapshot,
  listSnapshots as findSnapshots,
  queueSnapshot,
  type SnapshotRow,
} from '../../../db/snapshots/snapshots.ts'
import { linkSecret } from '../../../policy/apps/snapshot-links.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
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

/** What the creation of a snapshot may throw, of an application or a database. */
export const snapshotErrors = [
  ...idempotencyErrors,
  'SNAPSHOT_PROCESSING',
  'SNAPSHOT_FAILED',
  'SNAPSHOT_IN_PROGRESS',
  'RESTORE_IN_PROGRESS',
  'DAILY_SNAPSHOTS_LIMIT_REACHED',
  'CLUSTER_UNAVAILABLE',
] as const satisfies readonly ErrorCode[]

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
  errors: snapshotErrors,
  handle: (call, services) => snapshotOnce(call, services, takingOf(call, services)),
})

/** Throws CLUSTER_UNAVAILABLE early for an operation that would only wait for its host. */
export async function assertReachable(hostId: string, { db }: Services): Promise<void> {
  if (!(await findHost(db, hostId))?.reachable) throw new CodedError('CLUSTER_UNAVAILABLE')
}

function takingOf({ app, caller }: SnapshotCall, services: Services): Taking {
  const { id: appId, owner_id: ownerId } = app
  const request = { appId, ownerId, actor: caller.user.id, origin: 'manual', accepting: true } as const
  return {
    of: app,
    route: `POST /v2/apps/${appId}/snapshots`,
    queue: trx => queueSnapshot(trx, { ...request, plans: services.plans }),
    wake: () => wakeLane(services, app),
  }
}

export interface Taking {
  of: AppRow | DatabaseRow
  /** The request, for its key of idempotence. */
  route: string
  /** Stores the snapshot and its operation. */
  queue(trx: Db): Promise<SnapshotRow>
  wake(): void
}

/** Answers with the link of a snapshot, made once for a key of idempotence. Throws `snapshotErrors`. */
export async function snapshotOnce(
  { caller, exchange }: Pick<SnapshotCall, 'caller'> & { exchange: Exchange },
  services: Services,
  taking: Taking,
): Promise<Link> {
  assertNotLost(taking.of)
  await assertReachable(taking.of.host_id, services)
  const request = { key: idempotencyKeyOf(exchange), route: taking.route, fingerprint: '' }
  const taken = await oncePerKey<Taken | Link>({ caller, exchange }, request, services.db, async inTransaction => {
    const { id } = await takeSnapshot(exchange, services, inTransaction, taking)
    return { snapshot: id }
  })
  // A repeated answer may come from an earlier version.
  if ('url' in taken) return taken
  const row = await findSnapshot(services.db, taken.snapshot)
  if (!row) throw new CodedError('SNAPSHOT_FAILED', 'The snapshot was deleted after it was made.')
  return linkView(row, linking(services))
}

/** What is stored for repeated requests: their answer is made of it, so that no row holds the link, which needs no credential. */
interface Taken {
  snapshot: string
}

/** Resolves to the finished snapshot. From its commit on, repeated requests are answered that it is in progress. */
async function takeSnapshot(
  exchange: Exchange,
  services: Services,
  inTransaction: InTransaction<Taken | Link>,
  { queue, wake }: Taking,
): Promise<SnapshotRow> {
  const { row } = await inTransaction(
    async trx => {
      const row = await queue(trx)
      exchange.headers['X-Operation-Id'] = row.operation_id
      return { row, operationId: row.operation_id, answer: new CodedError('SNAPSHOT_PROCESSING') }
    },
    work => accept(services, work),
  )
  wake()
  const outcome = await outcomeOf(row.operation_id, exchange.signal, services)
  if (!outcome) throw new CodedError('SNAPSHOT_PROCESSING')
  if (outcome.state !== 'success') throw new CodedError('SNAPSHOT_FAILED', outcome.message ?? undefined)
  return row
}
