import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'
import type { Db } from '../../database.ts'

/** A volume of a database whose WAL files are copied: the one that serves, or the one before a restore. */
export interface CopiedDatabase {
  id: string
  ownerId: string
  generation: number
}

/** Of the databases of a host that can be restored to any second, and that serve or have served. */
export async function listCopiedDatabases(db: Db, hostId: string): Promise<CopiedDatabase[]> {
  const rows = await db('databases')
    .where({ host_id: hostId, engine: 'postgres' })
    .whereNotNull('provisioned_at')
    .orderBy('created_at')
    .select('id', 'owner_id', 'generation', 'retired_generation')
  return rows.flatMap(({ id, owner_id: ownerId, generation, retired_generation: retired }) =>
    // Older changes first.
    [...(retired === null ? [] : [retired]), generation].map(number => ({ id, ownerId, generation: number })),
  )
}

/**
 * Ids of databases that run on a host and need another base backup: their newest is old, WAL files after it are missing, or there are many.
 * While an engine writes more than can be copied, a backup after each gap would be in vain: one soon after the last gap, then they wait. Accounts
 * alternate; of each, those without any come first, then those whose newest is the oldest.
 */
export async function listDueBackups(db: Db, hostId: string): Promise<string[]> {
  const { backupSeconds, minBackupSeconds, gapBackupSeconds, storedPerMemory } = pointInTimeRules
  const { rows } = await db.raw(
    `select d.id from databases d
       left join lateral (select b.created_at, b.broken
                               or c.stored - b.stored_before > d.ram_mb::bigint * 1048576 * :storedPerMemory::integer / 4 as early,
                                 b.broken and greatest(b.created_at, c.gap_at) < now() - make_interval(secs => :gapBackupSeconds::integer)
                               and not exists (select from database_backups other
                                     where other.database_id = b.database_id and other.generation = b.generation and other.id <> b.id
                                       and other.created_at >= now() - make_interval(secs => :minBackupSeconds::integer)) as after_gap
                            from database_backups b
                            left join database_copies c on c.database_id = b.database_id and c.generation = b.generation
                           where b.database_id = d.id and b.generation = d.generation
                           order by b.created_at desc limit 1) newest on true
      where d.host_id = :hostId and d.engine = 'postgres' and d.status = 'running' and d.provisioned_at is not null
        and (newest.created_at is null or newest.after_gap
             or newest.created_at < now() - make_interval(secs => case when newest.early then :minBackupSeconds::integer else :backupSeconds::integer end))
      order by row_number() over (partition by d.owner_id order by newest.created_at nulls first, d.id),
               newest.created_at nulls first, d.id limit 100`,
    { hostId, backupSeconds, minBackupSeconds, gapBackupSeconds, storedPerMemory },
  )
  return rows.map(({ id }: { id: string }) => id)
}
