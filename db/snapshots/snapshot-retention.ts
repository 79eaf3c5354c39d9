import { retentionTimes } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { removeSnapshots } from './snapshots.ts'

export interface SnapshotRetention {
  /** How long good snapshots are retained. */
  goodSeconds: number
  failedSeconds: number
}

/** Contract 6.24: thirty days. Failed snapshots are retained for a day, for operators. */
export const snapshotRetention: SnapshotRetention = {
  goodSeconds: retentionTimes.snapshotDays * 86_400,
  failedSeconds: retentionTimes.failedSnapshotDays * 86_400,
}

const batchSize = 500

/**
 * Deletes snapshots past their retention, but none that a restore still reads, and fails those whose operation has ended. Resolves to
 * the number deleted.
 */
export async function sweepSnapshots(
  db: Db,
  { goodSeconds, failedSeconds }: SnapshotRetention = snapshotRetention,
): Promise<number> {
  await db.raw(
    `update snapshots s set state = 'failed', finished_at = now() from operations o
      where o.id = s.operation_id and s.state = 'making' and o.state not in ('accepting', 'queued', 'running')`,
  )
  const good = await sweep(db, 'good', goodSeconds)
  return good + (await sweep(db, 'failed', failedSeconds))
}

/** One state in each statement, as a constant: each has its own index by age, and most snapshots older than a day are good ones, which stay for a month. */
function sweep(db: Db, state: 'good' | 'failed', seconds: number): Promise<number> {
  return transaction(db, async trx => {
    const { rows } = await trx.raw(
      `select s.id, s.segment_id from snapshots s
        where s.state = '${state}' and s.created_at < now() - make_interval(secs => :seconds)
          and not exists (select 1 from deployments d join operations o on o.id = d.operation_id
                           where d.snapshot_id = s.id and o.state in ('accepting', 'queued', 'running'))
          and not (s.target_type = 'database' and s.id = any(array(
            select o.input->>'snapshotId' from operations o
             where o.target_type = 'database' and o.kind in ('restore', 'drill') and o.state in ('queued', 'running')
            union all
            select o.input->>'snapshotId' from operations o
             where o.target_type = 'database' and o.kind in ('restore', 'drill') and o.state = 'accepting')))
        order by s.created_at limit ${batchSize} for update of s skip locked`,
      { seconds },
    )
    await removeSnapshots(trx, rows)
    return rows.length
  })
}
