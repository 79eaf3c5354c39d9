import { userInfo } from 'node:os'
import { record } from '../db/audit.ts'
import type { Db } from '../db/database.ts'

/** Who is at the keyboard, also behind sudo: `operator:<login name>`. */
export function operatorName(): string {
  return `operator:${process.env.SUDO_USER ?? loginName()}`
}

/** A container may run as a user that has no name. */
function loginName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

export interface Act {
  /** Verb as it is typed: `users.block`. */
  action: string
  /** Whom it concerns; null = the platform itself. */
  accountId: string | null
  resource?: string
  operationId?: string
}

/** Writes an operator's act into the audit record, in the transaction that does it. */
export async function recordAct(trx: Db, { action, accountId, resource, operationId }: Act): Promise<void> {
  const concerned = { accountId, resource: resource ?? null, operationId: operationId ?? null }
  await record(trx, { actor: operatorName(), action, result: 'success', ...concerned })
}
