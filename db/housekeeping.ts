import { sweepPoints } from './app-metrics.ts'
import { sweepAudit } from './audit.ts'
import { sweepBlobLeases } from './blob-leases.ts'
import { sweepReceipts } from './blob-receipts.ts'
import { sweepCaptchas } from './captchas.ts'
import { type Db, isMine } from './database.ts'
import { sweepDowngrades } from './downgrades.ts'
import { sweepMails } from './mails.ts'
import { sweepShares } from './shares.ts'
import { sweepSignIns } from './sign-ins.ts'
import { sweepSnapshots } from './snapshot-retention.ts'
import { sweepUploads } from './upload-ends.ts'
import { sweepUploadTokens } from './upload-tokens.ts'

/**
 * Removes what is over: sessions, audit entries that nobody may see any more, points of metrics, old mail, snapshots, uploads and
 * receipts (the API sweeps its own counters and keys). False when another process is at it.
 */
export async function tidyRows(db: Db): Promise<boolean> {
  return db.transaction(async trx => {
    if (!(await isMine(trx, 'sweep'))) return false
    await trx.raw(`delete from sessions where expires_at < now() - interval '1 day'`)
    await sweepAudit(trx)
    await sweepSignIns(trx)
    await sweepCaptchas(trx)
    await sweepPoints(trx)
    await sweepMails(trx)
    await sweepSnapshots(trx)
    await sweepDowngrades(trx)
    await sweepUploads(trx)
    await sweepUploadTokens(trx)
    await sweepBlobLeases(trx)
    await sweepReceipts(trx)
    await sweepShares(trx)
    return true
  })
}
