import { acceptance } from '../../policy/acceptance.ts'
import type { ReadDelivery } from '../../policy/git/webhooks/deliveries.ts'
import type { Push } from '../../policy/git/webhooks/pushes.ts'
import { queuedReply, type WebhookReply } from '../../policy/git/webhooks/replies.ts'
import { newId } from '../../policy/ids.ts'
import { scaledBucket, webhookBucket } from '../../policy/limits.ts'
import { appCaps } from '../../policy/request-caps.ts'
import { type Db, sqlState, withRetries } from '../database.ts'
import { statement } from '../statement.ts'
import { bucketKey, type DeliverySource, sourceOf } from './deliveries.ts'

export interface PushDelivery extends DeliverySource {
  delivery: ReadDelivery
  push: Push
  restart: boolean
  /** Ids of the deployment and operation that it becomes. */
  deploymentId: string
  operationId: string
}

export type PushOutcome =
  | QueuedPush
  /** A repeated delivery names its operation where that is not confirmed yet. */
  | { kind: 'duplicate'; operationId?: string; deploymentId: string }
  /** Webhook or application were deleted meanwhile, or the webhook has another address. */
  | { kind: 'gone'; operationId?: undefined }
  /** The webhook has another secret by now. */
  | { kind: 'unsigned'; operationId?: undefined }
  /** The sender exceeds its rate. */
  | { kind: 'full'; operationId?: undefined; waitSeconds: number }
  /** So many deploys of the application wait already. The delivery was counted. */
  | { kind: 'crowded'; operationId?: undefined; waiting: number }

interface QueuedPush {
  kind: 'queued'
  operationId: string
  deploymentId: string
  /** Also stored with the delivery: owners see what their provider was answered. */
  reply: WebhookReply
}

interface StoredPush {
  outcome: PushOutcome['kind'] | 'resealed'
  deployment: string | null
  accepting: string | null
  reply: string | null
  sealed: Buffer | null
  waiting: number | null
}

/**
 * Stores a push as a deploy that waits for its confirmation, once per delivery id, and counts its delivery. One statement: a git provider
 * waits for each way to Postgres, and so do other pushes of the application, whose row is locked.
 */
async function storePush(db: Db, push: PushDelivery): Promise<PushOutcome> {
  const { deploymentId, operationId } = push
  const { burst, everySeconds } = scaledBucket(webhookBucket, push.limitScale)
  const reply = queuedReply({ ...push.push, deploymentId })
  for (let signedFor = push.sealedSecret ?? null; ; ) {
    const [stored] = await store(db, [
      deploymentId,
      operationId,
      newId(),
      push.appId,
      push.ownerId,
      push.webhookId,
      push.addressHash ?? null,
      signedFor,
      sourceOf(push),
      push.delivery.deliveryId,
      push.delivery.provider,
      push.delivery.event,
      push.push.commit,
      push.push.branch,
      push.push.cloneUrl,
      new URL(push.push.cloneUrl).origin,
      push.restart,
      bucketKey(push),
      everySeconds,
      burst,
      appCaps.waitingDeploys,
      acceptance.push.lockMs,
      reply.status,
      ...reply.aroundPlace,
    ])
    const { outcome, sealed } = stored!
    if (outcome !== 'resealed') return outcomeOf(outcome, push, stored!, { status: reply.status, everySeconds })
    // The same secret may have been sealed again with another key.
    if (push.isSignedFor?.(sealed!) === false) return { kind: 'unsigned' }
    signedFor = sealed
  }
}

function outcomeOf(
  kind: PushOutcome['kind'],
  { deploymentId, operationId }: PushDelivery,
  { deployment, accepting, reply, waiting }: StoredPush,
  { status, everySeconds }: { status: number; everySeconds: number },
): PushOutcome {
  if (kind === 'queued') return { kind, operationId, deploymentId, reply: { status, text: reply! } }
  if (kind === 'duplicate') return { kind, deploymentId: deployment!, operationId: accepting ?? undefined }
  if (kind === 'full') return { kind, waitSeconds: Math.max(1, Math.ceil(everySeconds)) }
  return kind === 'crowded' ? { kind, waiting: waiting! } : { kind }
}

/** A push that is stored, confirmed or not; undefined when it cannot be seen. */
async function findPush(db: Db, operationId: string): Promise<QueuedPush | undefined> {
  const [row] = await find(db, [operationId])
  return row && { kind: 'queued', operationId, deploymentId: row.id, reply: { status: row.status, text: row.text } }
}

/**
 * Lets a stored push start; a repeated call changes nothing. It supersedes waiting pushes of its branch, or is superseded by a newer one
 * that was confirmed first. False when it is missing: it was undone, or never stored. Undefined when another transaction holds the
 * application's row for too long: then it has to be repeated.
 */
async function confirmPush(db: Db, appId: string, operationId: string): Promise<boolean | undefined> {
  const rows = await withRetries(() => confirm(db, [appId, operationId])).catch(error => {
    if (sqlState(error) === lockNotAvailable) return []
    throw error
  })
  if (rows.length === 0) return undefined
  return rows[0]!.state !== null && rows[0]!.state !== 'accepting'
}

const lockNotAvailable = '55P03'

/** How pushes are stored. */
export const pushes = { store: storePush, find: findPush, confirm: confirmPush }

const store = statement<StoredPush>(
  'pushes.store',
  `select * from store_push(${Array.from({ length: 25 }, (_, n) => `$${n + 1}`).join(', ')})`,
)

const find = statement<{ id: string; status: number; text: string }>(
  'pushes.find',
  `select d.id, w.reply_status as status, w.reply_text as text
     from deployments d join webhook_deliveries w on w.deployment_id = d.id where d.operation_id = $1`,
)

const confirm = statement<{ state: string | null }>('pushes.confirm', 'select confirm_push($1, $2) as state')
