import { type AuditEntry, recordAudit } from '../../db/audit.ts'
import type { Db } from '../../db/database.ts'
import { retentionTimes } from '../../policy/retention.ts'
import type { Exchange } from '../http/exchange.ts'
import type { CoreServices } from './core-services.ts'
import type { Admission, Endpoint } from './endpoint.ts'

/**
 * Records an accepted command before it is answered: one that succeeded, or one whose operation was stored and failed. A command that
 * succeeded is answered so even if this fails; the log then has the entry. Skips what the command's own commit has recorded, and
 * what made no difference.
 */
export async function audit(
  endpoint: Pick<Endpoint, 'name' | 'method' | 'changes' | 'changesNothing'>,
  admission: Admission,
  exchange: Exchange,
  { db, log }: CoreServices,
  result: string,
): Promise<void> {
  const command = endpoint.method === 'GET' ? endpoint.changes : !endpoint.changesNothing
  if (!command || exchange.recorded || exchange.changedNothing || 'Idempotent-Replayed' in exchange.headers) return
  const entry = entryOf(endpoint.name, admission, exchange, result)
  if (!entry.actor || (result !== 'success' && entry.operationId === null)) return
  await recordAudit(db, entry).catch(err => log.error({ err, ...entry }, 'an audit entry could not be stored'))
}

/** Records a command that succeeds in the transaction that carries it out: neither is there without the other. */
export async function auditWithin(trx: Db, action: string, admission: Admission, exchange: Exchange): Promise<void> {
  await recordAudit(trx, entryOf(action, admission, exchange, 'success'))
  exchange.recorded = true
}

/** The audit entry of a command; without an actor there was none. */
export function entryOf(
  action: string,
  { caller, app, database }: Admission,
  exchange: Exchange,
  result: string,
): AuditEntry {
  const actor = caller?.user.id ?? exchange.actor ?? ''
  return {
    accountId: app?.owner_id ?? database?.owner_id ?? exchange.resourceOwner ?? actor,
    actor,
    action,
    resource: app?.id ?? database?.id ?? exchange.resource?.slice(0, retentionTimes.auditResourceCharacters) ?? null,
    result,
    operationId: exchange.headers['X-Operation-Id'] ?? null,
  }
}
