import type { Retention } from '../policy/retention.ts'
import { sweepKeys } from './accounts/accounts.ts'
import { sweepCaptchas } from './accounts/captchas.ts'
import { sweepDowngrades } from './accounts/downgrades.ts'
import { sweepMails } from './accounts/mails.ts'
import { sweepAuthorizations, sweepSessions, sweepSignIns } from './accounts/sign-ins.ts'
import { sweepBudgets, sweepCalls } from './ai/ai-calls.ts'
import { sweepUsage } from './ai/ai-usage.ts'
import { sweepAppChanges } from './apps/app-changes.ts'
import { sweepMetrics } from './apps/app-metrics.ts'
import { sweepStreamLeases } from './apps/realtime-listeners.ts'
import { BoundedAudit, sweepAudit } from './audit.ts'
import { type Db, tryRoundLock } from './database.ts'
import { sweepDatabaseChanges } from './databases/database-changes.ts'
import { sweepDrills } from './databases/database-drills.ts'
import { sweepDatabaseMetrics } from './databases/database-metrics.ts'
import { sweepPointInTime } from './databases/point-in-time/point-in-time-retention.ts'
import {
  sweepArchives,
  sweepDeletedArchives,
  sweepDeploymentLogs,
  sweepDeployments,
  sweepOperations,
} from './deploys/history-retention.ts'
import { OldDeployments } from './deploys/old-deployments.ts'
import { sweepOrders } from './domains/certificates.ts'
import { sweepDomainChanges } from './domains/domain-changes.ts'
import { sweepDomainDelays } from './domains/domain-delays.ts'
import { sweepDomainEvents } from './domains/domain-events.ts'
import { sweepEdges } from './domains/edges.ts'
import { sweepDeliveries } from './git/deliveries.ts'
import { sweepIdempotency } from './idempotency.ts'
import { sweepCounters } from './limits.ts'
import { sweepReceipts } from './objects/blob-receipts.ts'
import { sweepShares } from './objects/shares.ts'
import { sweepUploads } from './objects/uploads/upload-ends.ts'
import { sweepUploadTokens } from './objects/uploads/upload-tokens.ts'
import { sweepSlotLeases } from './slot-leases.ts'
import { sweepSnapshots } from './snapshots/snapshot-retention.ts'

/** One kind of row that expires. `sweep` deletes a batch and resolves to its size: 0 when none is left. */
export interface Chore {
  name: string
  sweep(db: Db): Promise<number>
}

/**
 * Everything that expires in Postgres except segments, which the upkeep of blob storage removes. Some chores remember how far they have
 * looked, so the same instances must be used in every round.
 */
export function chores({ historyDays, deploymentLogDays, archiveDays, pointInTimeDays }: Retention): Chore[] {
  const withArchive = new OldDeployments(archiveDays, { only: 'segment_id is not null' })
  const deletedArchive = new OldDeployments(0, { only: 'segment_id is not null' })
  const withLog = new OldDeployments(deploymentLogDays)
  const old = new OldDeployments(historyDays)
  const boundedAudit = new BoundedAudit()
  return [
    { name: 'sessions', sweep: sweepSessions },
    { name: 'sign-ins', sweep: sweepSignIns },
    { name: 'authorizations', sweep: sweepAuthorizations },
    { name: 'keys', sweep: sweepKeys },
    { name: 'captchas', sweep: sweepCaptchas },
    { name: 'audit record', sweep: sweepAudit },
    { name: 'audit record of each account', sweep: db => boundedAudit.sweep(db) },
    { name: 'metrics', sweep: sweepMetrics },
    { name: 'metrics of databases', sweep: sweepDatabaseMetrics },
    { name: 'evidence of drills', sweep: sweepDrills },
    { name: 'mails', sweep: sweepMails },
    { name: 'snapshots', sweep: sweepSnapshots },
    { name: 'base backups and WAL files', sweep: db => sweepPointInTime(db, pointInTimeDays) },
    { name: 'steps to a lower plan', sweep: sweepDowngrades },
    { name: 'events of domains', sweep: sweepDomainEvents },
    { name: 'orders of certificates', sweep: sweepOrders },
    { name: 'delays of domains', sweep: sweepDomainDelays },
    { name: 'proxies', sweep: sweepEdges },
    { name: 'changes of domains', sweep: sweepDomainChanges },
    { name: 'chunked uploads', sweep: sweepUploads },
    { name: 'upload tokens', sweep: sweepUploadTokens },
    { name: 'slot leases', sweep: sweepSlotLeases },
    { name: 'blob receipts', sweep: sweepReceipts },
    { name: 'shares', sweep: sweepShares },
    { name: 'changes of applications', sweep: sweepAppChanges },
    { name: 'changes of databases', sweep: sweepDatabaseChanges },
    { name: 'live streams', sweep: sweepStreamLeases },
    { name: 'rate limits', sweep: sweepCounters },
    { name: 'calls of the AI gateway', sweep: sweepCalls },
    { name: 'budgets of the AI gateway', sweep: sweepBudgets },
    { name: 'usage of the AI gateway', sweep: sweepUsage },
    { name: 'idempotency keys', sweep: sweepIdempotency },
    { name: 'webhook deliveries', sweep: sweepDeliveries },
    { name: 'archives', sweep: db => sweepArchives(db, withArchive) },
    { name: 'archives of deleted applications', sweep: db => sweepDeletedArchives(db, deletedArchive) },
    { name: 'deployment logs', sweep: db => sweepDeploymentLogs(db, withLog) },
    { name: 'deployments', sweep: db => sweepDeployments(db, old) },
    { name: 'operations', sweep: db => sweepOperations(db, historyDays) },
  ]
}

/** Batches of one chore in a round: the rest of a large backlog waits for the next rounds, so that the other chores run too. */
const batchesAtOnce = 20

/**
 * One round of all chores. Each batch is its own transaction. A chore that fails is reported to `failed`, and the others run all the
 * same. A chore that another process is running is skipped.
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
  return db.transaction(async trx => ((await tryRoundLock(trx, `sweep.${name}`)) ? sweep(trx) : 0))
}
