import type { ReadDelivery } from '../../policy/git/webhooks/deliveries.ts'
import type { WebhookReply } from '../../policy/git/webhooks/replies.ts'
import { newId } from '../../policy/ids.ts'
import { scaledBucket, webhookBucket } from '../../policy/limits.ts'
import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { takeFromBucket } from '../limits.ts'
import { statement } from '../statement.ts'

export interface DeliverySource {
  /** The webhook's row; null when the git-provider app delivered. */
  webhookId: string | null
  /** Hash of the address that it was sent to: a webhook's address may change while a delivery arrives. */
  addressHash?: Buffer
  /** The sealed secret that it was checked with; null = signatures were not checked. */
  sealedSecret?: Buffer | null
  /** Whether the delivery is also valid under this sealed secret: the webhook's may change while a delivery arrives. */
  isSignedFor?(sealed: Buffer): boolean
  appId: string
  ownerId: string
  /** The setting RATE_LIMIT_SCALE. */
  limitScale: number
}

/** The deployment of a delivery, once it is confirmed. */
export async function deploymentOfDelivery(
  db: Db,
  source: DeliverySource,
  deliveryId: string,
): Promise<string | undefined> {
  const [stored] = await look(db, [sourceOf(source), deliveryId, source.appId])
  return stored?.deployment_id
}

/**
 * Stores a delivery that deployed nothing, for the application's list, and counts it unless that was done. False when the sender exceeds
 * its rate.
 */
export async function recordDelivery(
  db: Db,
  source: DeliverySource,
  delivery: ReadDelivery,
  reply: WebhookReply,
  isCounted = false,
): Promise<boolean> {
  if (!isCounted && !(await takeFromBucket(db, bucketKey(source), scaledBucket(webhookBucket, source.limitScale))))
    return false
  const { deliveryId, provider, event, branch, commit } = delivery
  const verdict = reply.status === 202 ? 'ignored' : 'refused'
  const from = [newId(), source.appId, sourceOf(source), deliveryId, provider, event, branch, commit]
  await insert(db, [...from, verdict, reply.status, reply.text])
  await trim(db, [sourceOf(source), retentionTimes.refusedDeliveries, source.appId])
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

const look = statement<{ deployment_id: string }>(
  'deliveries.look',
  `select w.deployment_id
     from webhook_deliveries w left join deployments d on d.id = w.deployment_id left join operations o on o.id = d.operation_id
    where w.source = $1 and w.delivery_id = $2 and w.app_id = $3 and w.verdict in ('queued', 'superseded')
      and o.state is distinct from 'accepting'`,
)

const insert = statement<never>(
  'deliveries.insert',
  `insert into webhook_deliveries
     (id, app_id, source, delivery_id, provider, event, branch, commit, verdict, reply_status, reply_text)
   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
)

const trim = statement<never>(
  'deliveries.trim',
  `delete from webhook_deliveries where id in (
     select id from webhook_deliveries where source = $1 and app_id = $3 and verdict in ('ignored', 'refused')
      order by received_at desc offset $2)`,
)

/** What delivery ids are unique for. */
export const sourceOf = ({ webhookId }: DeliverySource): string => (webhookId === null ? 'app' : `webhook:${webhookId}`)

/** Seconds until an empty bucket accepts another delivery, at most. */
export const bucketSeconds = ({ limitScale }: DeliverySource): number =>
  Math.max(1, Math.ceil(scaledBucket(webhookBucket, limitScale).everySeconds))

/** The bucket that limits a sender. */
export const bucketKey = (source: DeliverySource): string => `git.webhook/${source.webhookId ?? source.appId}`
