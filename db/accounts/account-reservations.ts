import { CodedError } from '../../policy/errors.ts'
import { accountCaps } from '../../policy/request-caps.ts'
import type { Db } from '../database.ts'

/**
 * What an account's applications and databases have reserved, whether they run or not, in MB of memory: what they may use, and what their
 * disks were made for. Those of forgotten hosts reserve none.
 */
async function reservedBy(db: Db, ownerId: string): Promise<{ memoryMb: number; diskForMb: number }> {
  const { rows } = await db.raw(
    `select coalesce(sum(mb), 0)::integer as "memoryMb", coalesce(sum(disk_for_mb), 0)::integer as "diskForMb"
       from (select ram_mb as mb, disk_for_mb, host_id from apps where owner_id = :ownerId
             union all
             select reserved_mb, greatest(disk_for_mb, reserved_mb), host_id from databases where owner_id = :ownerId) reserved
      where host_id not in (select id from hosts where forgotten_at is not null)`,
    { ownerId },
  )
  return rows[0]
}

/** Memory in MB that the account's applications and databases have reserved. */
export async function usedMemoryMb(db: Db, ownerId: string): Promise<number> {
  return (await reservedBy(db, ownerId)).memoryMb
}

/** Throws INSUFFICIENT_MEMORY when the plan of an account has not this much memory left for an application. */
export async function assertMemory(
  db: Db,
  { ownerId, planMb, moreMb }: { ownerId: string; planMb: number; moreMb: number },
): Promise<void> {
  const freeMb = planMb - (await usedMemoryMb(db, ownerId))
  if (moreMb > freeMb)
    throw new CodedError(
      'INSUFFICIENT_MEMORY',
      `MEMORY requires ${moreMb} MB more; the plan has ${Math.max(0, freeMb)} MB left.`,
    )
}

/**
 * Throws INSUFFICIENT_MEMORY when the disks of an account would be those of more than twice the memory of its plan (contract 11.3): they
 * stay as large as the most memory that each application and database has had. The caller has locked the account.
 */
export async function assertDisk(
  trx: Db,
  { ownerId, planMb, moreMb }: { ownerId: string; planMb: number; moreMb: number },
): Promise<void> {
  const { diskForMb } = await reservedBy(trx, ownerId)
  const freeMb = planMb * accountCaps.diskPerMemory - diskForMb
  if (moreMb > Math.max(0, freeMb))
    throw new CodedError(
      'INSUFFICIENT_MEMORY',
      `Disks stay as large as the most memory that an application or database has had: yours are those of ${diskForMb} MB. Delete what you no longer need.`,
    )
}
