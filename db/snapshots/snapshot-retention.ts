import { kept } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { removeSnapshots } from './snapshots.ts'

export interface Retention {
  /** Good ones are kept so long. */
  goodSeconds: number
  failedSeconds: number
}

/** Contract 6.24: thirty days. What failed is kept for a day, so that operators can still see it. */
export const retention: Retention = {
  goodSeconds: kept.snapshotDays * 86_400,
  failedSeconds: kept.failedSnapshotDays * 86_400,
}

const atOnce = 500

/**
 * Removes what is older than its time, but never what a restore still reads, and ends what lost its operation. Resolves to how
 * many rows were removed.
 */
export async function sweepSnapshots(db: Db, { goodSeconds, failedSeconds }: Retention = retention): Promise<number> {
  await db.raw(
    `update snapshots s set state = 'failed', finished_at = now() from operations o
      where o.id = s.operation_id and s.state = 'making' and o.state not in ('accepting', 'queued', 'running')`,
  )
  const good = await sweep(db, 'good', goodSeconds)
  return good + (await sweep(db, 'failed', failedSeconds))
}

/** One state at a time and by name: each has an index of its own by age, and most that is a day old is good for a month. */
function sweep(db: Db, state: 'good' | 'failed', seconds: number): Promise<number> {
  return transaction(db, async trx => {
    const { rows } = await trx.raw(
      `select s.id, s.segment_id from snapshots s
        where s.state = '${state}' and s.created_at < now() - make_interval(secs => :seconds)
          and not exists (select 1 from deployments d join operations o on o.id = d.operation_id
                           where d.snapshot_id = s.id and o.state in ('accepting', 'queued', 'running'))
        order by s.created_at limit ${atOnce} for update of s skip locked`,
      { seconds },
    )
    await removeSnapshots(trx, rows)
    return rows.length
  })
}
