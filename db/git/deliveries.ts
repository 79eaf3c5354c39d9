import type { ReadDelivery } from '../../policy/git/webhooks/deliveries.ts'
import type { Push } from '../../policy/git/webhooks/pushes.ts'
import type { WebhookReply } from '../../policy/git/webhooks/replies.ts'
import { newId } from '../../policy/ids.ts'
import { type Bucket, scaledBucket, webhookBucket } from '../../policy/limits.ts'
import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'
import { lockForDeploy, queueLockedDeploy } from '../deploys/deploys.ts'
import { deleteExpired } from '../expired-rows.ts'
import { takeFromBucket } from '../limits.ts'
import { statement } from '../statement.ts'

export interface DeliverySource {
  /** The webhook's row; null when the git-provider app delivered. */
  webhookId: string | null
  /** Hash of the address that it was sent to: a webhook's address may change while a delivery arrives. */
  addressHash?: Buffer
  /** Whether the delivery is valid under the webhook's current secret, given sealed: it may change while a delivery arrives. */
  isSignedFor?(sealed: Buffer | null): boolean
  appId: string
  ownerId: string
  /** The setting RATE_LIMIT_SCALE. */
  limitScale: number
}

export interface PushDelivery extends DeliverySource {
  delivery: ReadDelivery
  push: Push
  restart: boolean
}

export type PushOutcome =
  /** `position` 1 = next. */
  | { kind: 'queued'; operationId: string; deploymentId: string; position: number }
  | { kind: 'duplicate'; operationId?: string; deploymentId: string }
  /** Webhook or application were deleted meanwhile, or the webhook has another address. */
  | { kind: 'gone'; operationId?: undefined }
  /** The webhook has another secret by now. */
  | { kind: 'unsigned'; operationId?: undefined }
  | { kind: 'full'; operationId?: undefined; waitSeconds: number }

/**
 * Queues the deployment and operation of a push, once per delivery id, and counts the delivery; to be called in a transaction, which
 * `recordPush` completes. A repeated delivery names its operation where that is not confirmed yet.
 */
export async function queuePush(trx: Db, push: PushDelivery): Promise<PushOutcome> {
  // The lock of the application's row serializes concurrent copies of one delivery.
  if (!(await lockForDeploy(trx, push.appId))) return { kind: 'gone' }
  const [stored] = await look(trx, lookValues(push, push.delivery.deliveryId))
  if (stored?.deployment_id) {
    const operationId = stored.accepting ?? undefined
    return { kind: 'duplicate', deploymentId: stored.deployment_id, operationId }
  }
  if (!stored?.live) return { kind: 'gone' }
  if (push.isSignedFor?.(stored.secret_sealed) === false) return { kind: 'unsigned' }
  const bucket = scaledBucket(webhookBucket, push.limitScale)
  if (!(await takeFromBucket(trx, bucketKey(push), bucket))) return full(bucket)
  const { operationId, deploymentId, position } = await queueLockedDeploy(trx, {
    appId: push.appId,
    ownerId: push.ownerId,
    actor: push.ownerId,
    trigger: push.webhookId === null ? 'app' : 'webhook',
    revision: push.push.commit,
    cloneUrl: push.push.cloneUrl,
    branch: push.push.branch,
    restart: push.restart,
    accepting: true,
  })
  return { kind: 'queued', operationId, deploymentId, position }
}

/** Records the delivery of a push that `queuePush` has queued, with the reply that it gets; in the same transaction. */
export async function recordPush(
  trx: Db,
  push: PushDelivery,
  deploymentId: string,
  reply: WebhookReply,
): Promise<void> {
  const row = rowOf(push, push.delivery, 'queued', reply, deploymentId)
  await insertQueued(trx, [...row, push.webhookId, new URL(push.push.cloneUrl).origin])
}

/** The deployment of a delivery, once it is confirmed. */
export async function deploymentOfDelivery(
  db: Db,
  source: DeliverySource,
  deliveryId: string,
): Promise<string | undefined> {
  const [stored] = await look(db, lookValues(source, deliveryId))
  return stored?.accepting ? undefined : (stored?.deployment_id ?? undefined)
}

/** Stores a delivery that deployed nothing, for the application's list, and counts it. False when the sender exceeds its rate. */
export async function recordDelivery(
  db: Db,
  source: DeliverySource,
  delivery: ReadDelivery,
  reply: WebhookReply,
): Promise<boolean> {
  if (!(await takeFromBucket(db, bucketKey(source), scaledBucket(webhookBucket, source.limitScale)))) return false
  await insert(db, rowOf(source, delivery, reply.status === 202 ? 'ignored' : 'refused', reply, null))
  await trim(db, [sourceOf(source), retentionTimes.refusedDeliveries])
  return true
}

export interface DeliveryRow {
  id: string
  delivery_id: string
  provider: string
  event: string
  branch: string | null
  commit: string | null
  received_at: Date
  verdict: 'queued' | 'superseded' | 'ignored' | 'refused'
  reply_status: number
  reply_text: string
  deployment_id: string | null
  superseded_by: string | null
}

/** The newest 100 of the last 7 days, newest first. */
export async function listDeliveries(db: Db, appId: string): Promise<DeliveryRow[]> {
  return db('webhook_deliveries as w')
    .leftJoin('deployments as d', 'd.id', 'w.deployment_id')
    .leftJoin('operations as o', 'o.id', 'd.operation_id')
    .where('w.app_id', appId)
    .whereRaw(`o.state is distinct from 'accepting'`)
    .whereRaw('w.received_at > now() - make_interval(days => ?)', [retentionTimes.deliveryDays])
    .orderBy([
      { column: 'w.received_at', order: 'desc' },
      { column: 'w.id', order: 'desc' },
    ])
    .limit(100)
    .select('w.*', 'd.superseded_by')
}

/** Deletes deliveries older than 7 days, and with them the delivery ids that identify repetitions. */
export function sweepDeliveries(db: Db): Promise<number> {
  const values = { days: retentionTimes.deliveryDays }
  return deleteExpired(db, {
    table: 'webhook_deliveries',
    when: 'old.received_at < now() - make_interval(days => :days)',
    values,
  })
}

interface StoredDelivery {
  deployment_id: string | null
  /** Its operation, while that is not confirmed. */
  accepting: string | null
  live: boolean
  secret_sealed: Buffer | null
}

const look = statement<StoredDelivery>(
  'deliveries.look',
  `select d.deployment_id,
          (select o.id from deployments p join operations o on o.id = p.operation_id
            where p.id = d.deployment_id and o.state = 'accepting') as accepting,
          $4::text is null or w.id is not null as live, w.secret_sealed
     from (select 1) as one
     left join git_webhooks w on w.id = $4 and w.address_hash = $5
     left join webhook_deliveries d on d.source = $1 and d.delivery_id = $2 and d.app_id = $3 and d.verdict in ('queued', 'superseded')`,
)

const columns = [
  'id',
  'app_id',
  'source',
  'delivery_id',
  'provider',
  'event',
  'branch',
  'commit',
  'verdict',
  'reply_status',
  'reply_text',
  'deployment_id',
] as const

const insertion = `insert into webhook_deliveries (${columns.join(', ')}) values (${columns.map((_, i) => `$${i + 1}`).join(', ')})`
const insert = statement<never>('deliveries.insert', insertion)

/** The first queued push binds the webhook's token to its host. */
const insertQueued = statement<never>(
  'deliveries.insert-queued',
  `with bound as (update git_webhooks set token_host = $14 where id = $13 and token_host is null) ${insertion}`,
)

const trim = statement<never>(
  'deliveries.trim',
  `delete from webhook_deliveries where id in (
     select id from webhook_deliveries where source = $1 and verdict in ('ignored', 'refused')
      order by received_at desc offset $2)`,
)

function rowOf(
  source: DeliverySource,
  { deliveryId, provider, event, branch, commit }: ReadDelivery,
  verdict: DeliveryRow['verdict'],
  { status, text }: WebhookReply,
  deploymentId: string | null,
): unknown[] {
  const { appId } = source
  return [
    newId(),
    appId,
    sourceOf(source),
    deliveryId,
    provider,
    event,
    branch,
    commit,
    verdict,
    status,
    text,
    deploymentId,
  ]
}

const lookValues = (source: DeliverySource, deliveryId: string) => [
  sourceOf(source),
  deliveryId,
  source.appId,
  source.webhookId,
  source.addressHash ?? null,
]

const sourceOf = ({ webhookId }: DeliverySource): string => (webhookId === null ? 'app' : `webhook:${webhookId}`)

const bucketKey = (source: DeliverySource): string => `git.webhook/${source.webhookId ?? source.appId}`

const full = ({ everySeconds }: Bucket): PushOutcome => ({
  kind: 'full',
  waitSeconds: Math.max(1, Math.ceil(everySeconds)),
})
