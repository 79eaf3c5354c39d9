import { settleDowngrade } from '../db/accounts/downgrades.ts'
import type { Db } from '../db/database.ts'
import type { Plans } from '../policy/accounts/plans.ts'

export type DowngradeRecords = ReturnType<typeof downgradeRecords>

/** Steps to lower plans, in Postgres. Each is one transaction and may be repeated. */
export function downgradeRecords(db: Db, plans: Plans) {
  return {
    /** Does what is due. Returns the milliseconds until the code expires, or null when nothing is left to do. */
    async settleDowngrade(userId: string): Promise<number | null> {
      return settleDowngrade(db, plans, userId)
    },
  }
}
