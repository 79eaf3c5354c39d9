import { record } from '../db/audit.ts'
import type { Exchange } from './call.ts'
import type { Admission, Endpoint } from './endpoint.ts'
import type { Parts } from './parts.ts'

/**
 * Writes an accepted command down before it is answered: one that was done, or one whose operation was done for and failed. A
 * command that is done is answered so even when this fails; the log has it then.
 */
export async function audit(
  endpoint: Endpoint,
  { caller, app }: Admission,
  exchange: Exchange,
  { db, log }: Parts,
  result: string,
): Promise<void> {
  const operationId = exchange.headers['X-Operation-Id'] ?? null
  const command = endpoint.method !== 'GET' || endpoint.changes
  const again = 'Idempotent-Replayed' in exchange.headers
  const actor = caller?.user.id ?? exchange.actor
  if (!command || again || !actor || (result !== 'success' && operationId === null)) return
  const entry = {
    accountId: app?.owner_id ?? exchange.resourceOwner ?? actor,
    actor,
    action: endpoint.name,
    resource: app?.id ?? exchange.resource ?? null,
    result,
    operationId,
  }
  await record(db, entry).catch(err => log.error({ err, ...entry }, 'an entry of the audit record was lost'))
}
