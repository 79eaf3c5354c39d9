import type { Logger } from 'pino'
import { listAccountsOfApps } from '../../db/apps/app-rows.ts'
import type { Db } from '../../db/database.ts'
import { loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface AccountOptions {
  db: Db
  /** Tells the process `analytics` the account of each application. Null: there is none. */
  tell: ((accounts: readonly (readonly [app: string, account: string])[]) => Promise<void>) | null
  log: Pick<Logger, 'warn'>
  everySeconds?: number
}

/** Tells the process `analytics`, which has no access to the database, whose applications are, until the signal aborts: their shares of a day are bounded together. */
export async function keepAccountsKnown(
  { db, tell, log, everySeconds = roundSeconds.analyticsAccounts }: AccountOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!tell) return
  await loop(async () => tell(await listAccountsOfApps(db)), {
    signal,
    everyMs: everySeconds * 1000,
    onError: error => log.warn({ err: error }, 'accounts for analytics: will try again'),
  })
}
