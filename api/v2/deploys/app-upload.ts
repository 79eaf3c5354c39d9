import { takeSlotLease } from '../../../db/slot-leases.ts'
import { ApiError } from '../../../policy/errors.ts'
import { accountCaps } from '../../../policy/request-caps.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'
import { withLease } from '../../v1/blob-leases.ts'
import { type Reception, receiveFile, type Upload } from '../../v1/uploads.ts'

/**
 * Receives a file for an application as `receiveFile` does; an account has a bounded number of these under way, over all processes: each
 * holds a connection, memory, and room of the object store that nothing has counted yet. Throws KEEP_CALM beyond.
 */
export async function receiveAppFile(
  { caller, exchange }: { caller: Caller; exchange: Exchange },
  services: Services,
  reception: Reception,
): Promise<Upload> {
  const lease = await takeSlotLease(services.db, `app-upload/${caller.user.id}`, accountCaps.appUploads)
  if (!lease)
    throw new ApiError('KEEP_CALM', `${accountCaps.appUploads} uploads of this account are under way already.`, 5)
  return withLease(services, lease, () => receiveFile(exchange, services, reception))
}
