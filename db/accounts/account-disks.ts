import { ApiError } from '../../policy/errors.ts'
import { accountCaps } from '../../policy/request-caps.ts'
import type { Db } from '../database.ts'

/**
 * Throws INSUFFICIENT_MEMORY when the disks of an account would be those of more than twice the memory of its plan (contract 11.3): they
 * stay as large as the most memory that each application and database has had. The caller has locked the account.
 */
export async function assertDisk(
  trx: Db,
  { ownerId, planMb, moreMb }: { ownerId: string; planMb: number; moreMb: number },
): Promise<void> {
  const { rows } = await trx.raw(
    `select coalesce(sum(mb), 0)::integer as used
       from (select disk_for_mb as mb, host_id from apps where owner_id = :ownerId
             union all
             select disk_for_mb, host_id from databases where owner_id = :ownerId) volumes
      where host_id not in (select id from hosts where forgotten_at is not null)`,
    { ownerId },
  )
  const freeMb = planMb * accountCaps.diskPerMemory - rows[0].used
  if (moreMb > Math.max(0, freeMb))
    throw new ApiError(
      'INSUFFICIENT_MEMORY',
      `Disks stay as large as the most memory that an application or database has had: yours are those of ${rows[0].used} MB. Delete what you no longer need.`,
    )
}
