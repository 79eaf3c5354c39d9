import { FairSlots } from '../../lib/async/fair-slots.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { pushesAtOnce } from '../../policy/git/push-slots.ts'
import type { ReadDelivery } from '../../policy/git/webhooks/deliveries.ts'
import type { Push } from '../../policy/git/webhooks/pushes.ts'
import type { QueuedReply, WebhookReply } from '../../policy/git/webhooks/replies.ts'
import { newId } from '../../policy/ids.ts'
import { scaledBucket, webhookBucket } from '../../policy/limits.ts'
import { appCaps } from '../../policy/request-caps.ts'
import { batched, NotBegun } from '../batched.ts'
import { type Db, sqlState, withRetries } from '../database.ts'
import { lockedSlotsOf } from '../locked-slots.ts'
import { batchedOverSubjects, held } from '../shared-batches.ts'
import { statement } from '../statement.ts'
import { bucketKey, bucketSeconds, type DeliverySource, sourceOf } from './deliveries.ts'

export interface PushDelivery extends DeliverySource {
  delivery: ReadDelivery
  push: Push
  restart: boolean
  /** Ids of the deployment and operation that it becomes. */
  deploymentId: string
  operationId: string
  /** Also stored with the delivery, with the place in the queue between its two texts. */
  reply: QueuedReply
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
  /** The queue of the application is full: `waiting` is the number of deploys in it. The delivery was counted. */
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

/** A push, and what its webhook's secret is compared with. */
interface SignedPush {
  push: PushDelivery
  signedFor: Buffer | null
  waitsUntil: number
}

/**
 * Stores a push as a deploy that waits for its confirmation, once per delivery id, and counts its delivery. Pushes that arrive together
 * share a statement, and accounts alternate in it. One that is not started until `waitsUntil`, of `performance.now()`, rejects with NotBegun.
 */
async function storePush(db: Db, push: PushDelivery, waitsUntil: number): Promise<PushOutcome> {
  for (let signedFor = push.sealedSecret ?? null; ; ) {
    const stored = await store(db, { push, signedFor, waitsUntil })
    if (stored.outcome !== 'resealed') return outcomeOf(stored.outcome, push, stored)
    // The same secret may have been sealed again with another key.
    if (push.isSignedFor?.(stored.sealed!) === false) return { kind: 'unsigned' }
    signedFor = stored.sealed
  }
}

const bucketOf = (push: PushDelivery) => scaledBucket(webhookBucket, push.limitScale)

function outcomeOf(
  kind: PushOutcome['kind'],
  push: PushDelivery,
  { deployment, accepting, reply, waiting }: StoredPush,
): PushOutcome {
  const { deploymentId, operationId } = push
  if (kind === 'queued') return { kind, operationId, deploymentId, reply: { status: push.reply.status, text: reply! } }
  if (kind === 'duplicate') return { kind, deploymentId: deployment!, operationId: accepting ?? undefined }
  if (kind === 'full') return { kind, waitSeconds: bucketSeconds(push) }
  return kind === 'crowded' ? { kind, waiting: waiting! } : { kind }
}

/** A push that is stored, confirmed or not; undefined when it cannot be seen. */
async function findPush(db: Db, operationId: string): Promise<QueuedPush | undefined> {
  const row = await find(db, 'all', operationId)
  return row && { kind: 'queued', operationId, deploymentId: row.id, reply: { status: row.status, text: row.text } }
}

/** The application and account of a push. */
type PushSubject = Pick<DeliverySource, 'appId' | 'ownerId'>

/**
 * Lets a stored push start; a repeated call changes nothing. It supersedes waiting pushes of its branch, or is superseded by a newer one
 * that is confirmed with it or was before. False when it is missing: it was undone, or never stored. Undefined when the application's row
 * is held for too long by something else: then it has to be repeated.
 */
async function confirmPush(db: Db, { appId, ownerId }: PushSubject, operationId: string): Promise<boolean | undefined> {
  const push = { appId, ownerId, operationId, waitsUntil: performance.now() + acceptance.tryMs }
  const state = await withRetries(() => confirm(db, push)).catch(error => {
    if (sqlState(error) === lockNotAvailable || error instanceof NotBegun) return undefined
    throw error
  })
  return state === undefined ? undefined : state !== null && state !== 'accepting'
}

const lockNotAvailable = '55P03'

/** What Postgres returns for a push that a shared statement left out. */
const isHeld = 'held'

/** How pushes are stored. */
export const pushes = { store: storePush, find: findPush, confirm: confirmPush }

const appSlots = new WeakMap<Db, FairSlots>()

/** A slot for a connection that waits for a locked application: the only one of the application, to store or to confirm, and one of its account. */
async function slotOf(db: Db, { appId, ownerId }: PushSubject): Promise<() => void> {
  const apps = appSlots.get(db) ?? new FairSlots({ atOnce: Number.POSITIVE_INFINITY, perSubject: 1 })
  appSlots.set(db, apps)
  const leaveApp = await apps.enter(appId)
  const leaveAccount = await lockedSlotsOf(db).enter(ownerId)
  return () => {
    leaveAccount?.()
    leaveApp?.()
  }
}

const together = { maxSize: pushesAtOnce, lockMs: acceptance.push.togetherLockMs }

/** A commit that comes later than the answer is due would be undone. */
function lockMsOf(signed: readonly SignedPush[]): number {
  const { lockMs, beginMs, commitMs } = acceptance.push
  const left = Math.min(...signed.map(({ waitsUntil }) => waitsUntil)) + commitMs - beginMs - performance.now()
  return Math.ceil(Math.max(1, Math.min(lockMs, left)))
}

const storeAll = statement<StoredPush | { outcome: typeof isHeld }>(
  'pushes.store',
  `select * from store_free_pushes(${Array.from({ length: 25 }, (_, n) => `$${n + 1}`).join(', ')})`,
)

const store = batchedOverSubjects<SignedPush, StoredPush>(
  async (db, signed, lockMs) => {
    const of = <T>(value: (push: PushDelivery) => T): T[] => signed.map(({ push }) => value(push))
    const rows = await storeAll(db, [
      of(({ deploymentId }) => deploymentId),
      of(({ operationId }) => operationId),
      of(newId),
      of(({ appId }) => appId),
      of(({ ownerId }) => ownerId),
      of(({ webhookId }) => webhookId),
      of(({ addressHash }) => addressHash ?? null),
      signed.map(({ signedFor }) => signedFor),
      of(sourceOf),
      of(({ delivery }) => delivery.deliveryId),
      of(({ delivery }) => delivery.provider),
      of(({ delivery }) => delivery.event),
      of(({ push }) => push.commit),
      of(({ push }) => push.branch),
      of(({ push }) => push.cloneUrl),
      of(({ push }) => new URL(push.cloneUrl).origin),
      of(({ restart }) => restart),
      of(bucketKey),
      of(push => bucketOf(push).everySeconds),
      of(push => bucketOf(push).burst),
      appCaps.waitingDeploys,
      lockMs || lockMsOf(signed),
      of(({ reply }) => reply.status),
      of(({ reply }) => reply.aroundPlace[0]),
      of(({ reply }) => reply.aroundPlace[1]),
    ])
    return rows.map(row => (row.outcome === isHeld ? held : row))
  },
  {
    subjectOf: ({ push }) => push.appId,
    accountOf: ({ push }) => push.ownerId,
    waitsUntil: ({ waitsUntil }) => waitsUntil,
    slotFor: (db, { push }) => slotOf(db, push),
    ...together,
  },
)

const findAll = statement<{ operation: string; id: string; status: number; text: string }>(
  'pushes.find',
  `select d.operation_id as operation, d.id, w.reply_status as status, w.reply_text as text
     from deployments d join webhook_deliveries w on w.deployment_id = d.id where d.operation_id = any($1::text[])`,
)

/** Shared, because after a statement that failed each push in it is looked up. */
const find = batched(
  async (db, _, operations: readonly string[]) => {
    const rows = new Map((await findAll(db, [operations])).map(row => [row.operation, row]))
    return operations.map(operation => rows.get(operation))
  },
  { maxConcurrent: 2, maxSize: pushesAtOnce },
)

const confirmAll = statement<{ state: string | null }>(
  'pushes.confirm',
  'select * from confirm_free_pushes($1, $2, $3)',
)

interface StoredOperation extends PushSubject {
  operationId: string
  waitsUntil: number
}

const confirm = batchedOverSubjects<StoredOperation, string | null>(
  async (db, stored, lockMs) => {
    const apps = stored.map(({ appId }) => appId)
    const operations = stored.map(({ operationId }) => operationId)
    const rows = await confirmAll(db, [apps, operations, lockMs || acceptance.push.confirmLockMs])
    return rows.map(({ state }) => (state === isHeld ? held : state))
  },
  {
    subjectOf: ({ appId }) => appId,
    accountOf: ({ ownerId }) => ownerId,
    waitsUntil: ({ waitsUntil }) => waitsUntil,
    slotFor: slotOf,
    ...together,
  },
)
