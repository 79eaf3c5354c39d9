import type { Logger } from 'pino'
import { listAccountsOfApps } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface AccountOptions {
  db: Db
  /** Sends the process `analytics` the account of each application. Null: there is none. */
  send: ((accounts: readonly (readonly [app: string, account: string])[]) => Promise<void>) | null
  log: Pick<Logger, 'warn'>
  everySeconds?: number
}

/**
 * Sends the process `analytics`, which has no access to the database, the accounts of all applications until the signal aborts: what an account
 * stores of a day is bounded.
 */
export async function keepAccountsKnown(
  { db, send, log, everySeconds = roundSeconds.analyticsAccounts }: AccountOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!send) return
  await loop(async () => send(await listAccountsOfApps(db)), {
    signal,
    everyMs: everySeconds * 1000,
    onError: error => log.warn({ err: error }, 'accounts for analytics: will try again'),
  })
}
