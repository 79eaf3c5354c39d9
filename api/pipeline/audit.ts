import { type AuditEntry, recordAudit } from '../../db/audit.ts'
import { kept } from '../../policy/retention.ts'
import type { Exchange } from '../http/call.ts'
import type { Admission, Endpoint } from './endpoint.ts'
import type { CoreServices } from './core-services.ts'

/**
 * Writes an accepted command down before it is answered: one that was done, or one whose operation was done for and failed. A
 * command that is done is answered so even when this fails; the log has it then. Not what its own commit has recorded.
 */
export async function audit(
  endpoint: Endpoint,
  admission: Admission,
  exchange: Exchange,
  { db, log }: CoreServices,
  result: string,
): Promise<void> {
  const command = endpoint.method !== 'GET' || endpoint.changes
  if (!command || exchange.recorded || 'Idempotent-Replayed' in exchange.headers) return
  const entry = entryOf(endpoint.name, admission, exchange, result)
  if (!entry.actor || (result !== 'success' && entry.operationId === null)) return
  await recordAudit(db, entry).catch(err => log.error({ err, ...entry }, 'an entry of the audit record was lost'))
}

/** What the record will say of a command; nobody has done one without an actor. */
export function entryOf(action: string, { caller, app }: Admission, exchange: Exchange, result: string): AuditEntry {
  const actor = caller?.user.id ?? exchange.actor ?? ''
  return {
    accountId: app?.owner_id ?? exchange.resourceOwner ?? actor,
    actor,
    action,
    resource: app?.id ?? exchange.resource?.slice(0, kept.auditResourceCharacters) ?? null,
    result,
    operationId: exchange.headers['X-Operation-Id'] ?? null,
  }
}
