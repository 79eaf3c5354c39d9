import type { Retention } from '../policy/retention.ts'
import { sweepCaptchas } from './accounts/captchas.ts'
import { sweepDowngrades } from './accounts/downgrades.ts'
import { sweepMails } from './accounts/mails.ts'
import { sweepAuthorizations, sweepSessions, sweepSignIns } from './accounts/sign-ins.ts'
import { sweepAppChanges } from './apps/app-changes.ts'
import { sweepPoints } from './apps/app-metrics.ts'
import { sweepLeases } from './apps/realtime-listeners.ts'
import { sweepAudit } from './audit.ts'
import { type Db, isMine } from './database.ts'
import {
  sweepArchives,
  sweepDeletedArchives,
  sweepDeploymentLogs,
  sweepDeployments,
  sweepOperations,
} from './deploys/history-retention.ts'
import { OldDeployments } from './deploys/old-deployments.ts'
import { sweepDeliveries } from './git/deliveries.ts'
import { sweepIdempotency } from './idempotency.ts'
import { sweepCounters } from './limits.ts'
import { sweepBlobLeases } from './objects/blob-leases.ts'
import { sweepReceipts } from './objects/blob-receipts.ts'
import { sweepShares } from './objects/shares.ts'
import { sweepUploads } from './objects/uploads/upload-ends.ts'
import { sweepUploadTokens } from './objects/uploads/upload-tokens.ts'
import { sweepSnapshots } from './snapshots/snapshot-retention.ts'

/** One kind of row that expires. `sweep` deletes some of them and resolves to how many: 0 when there are no more. */
export interface Chore {
  name: string
  sweep(db: Db): Promise<number>
}

/**
 * Everything that expires by itself in Postgres, but for bodies, which the upkeep of blob storage removes. Some of them remember how far
 * they have looked, so that the same ones are to do every round.
 */
export function chores({ historyDays, deploymentLogDays, archiveDays }: Retention): Chore[] {
  const withArchive = new OldDeployments(archiveDays, { only: 'segment_id is not null' })
  const deletedArchive = new OldDeployments(0, { only: 'segment_id is not null' })
  const withLog = new OldDeployments(deploymentLogDays)
  const old = new OldDeployments(historyDays)
  return [
    { name: 'sessions', sweep: sweepSessions },
    { name: 'sign-ins', sweep: sweepSignIns },
    { name: 'authorizations', sweep: sweepAuthorizations },
    { name: 'captchas', sweep: sweepCaptchas },
    { name: 'audit record', sweep: sweepAudit },
    { name: 'metrics', sweep: sweepPoints },
    { name: 'mails', sweep: sweepMails },
    { name: 'snapshots', sweep: sweepSnapshots },
    { name: 'steps to a lower plan', sweep: sweepDowngrades },
    { name: 'chunked uploads', sweep: sweepUploads },
    { name: 'upload tokens', sweep: sweepUploadTokens },
    { name: 'blob leases', sweep: sweepBlobLeases },
    { name: 'blob receipts', sweep: sweepReceipts },
    { name: 'shares', sweep: sweepShares },
    { name: 'changes of applications', sweep: sweepAppChanges },
    { name: 'live streams', sweep: sweepLeases },
    { name: 'rate limits', sweep: sweepCounters },
    { name: 'idempotency keys', sweep: sweepIdempotency },
    { name: 'webhook deliveries', sweep: sweepDeliveries },
    { name: 'archives', sweep: db => sweepArchives(db, withArchive) },
    { name: 'archives of deleted applications', sweep: db => sweepDeletedArchives(db, deletedArchive) },
    { name: 'deployment logs', sweep: db => sweepDeploymentLogs(db, withLog) },
    { name: 'deployments', sweep: db => sweepDeployments(db, old) },
    { name: 'operations', sweep: db => sweepOperations(db, historyDays) },
  ]
}

/** Batches of one chore in a round: what is left of a large backlog comes in the next rounds, after the turn of the others. */
const batchesAtOnce = 20

/**
 * One round of all chores. Each batch is a transaction of its own, and a chore that fails is told to `failed` and keeps nobody
 * else from their turn. What another process is at is left to it.
 */
export async function tidyRows(db: Db, all: Chore[], failed: (chore: string, error: unknown) => void): Promise<void> {
  for (const { name, sweep } of all) {
    try {
      for (let batch = 0; batch < batchesAtOnce && (await once(db, name, sweep)) > 0; batch++);
    } catch (error) {
      failed(name, error)
    }
  }
}

function once(db: Db, name: string, sweep: Chore['sweep']): Promise<number> {
  return db.transaction(async trx => ((await isMine(trx, `sweep.${name}`)) ? sweep(trx) : 0))
}
