import { takeSlotLease } from '../../db/slot-leases.ts'
import { CodedError } from '../../policy/errors.ts'
import { accountCaps } from '../../policy/request-caps.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'
import { withLease } from './blob-leases.ts'
import { type Reception, receiveFile, type Upload } from './uploads.ts'

/**
 * Receives a file for an application as `receiveFile` does. Their number per account is bounded over all processes, because each holds a
 * connection, memory, and space in the object store that is not counted yet. Throws KEEP_CALM beyond that.
 */
export async function receiveAppFile(
  { caller, exchange }: { caller: Caller; exchange: Exchange },
  services: Services,
  reception: Omit<Reception, 'ownerId'>,
): Promise<Upload> {
  const lease = await takeSlotLease(services.db, `app-upload/${caller.user.id}`, accountCaps.appUploads)
  if (!lease)
    throw new CodedError('KEEP_CALM', `${accountCaps.appUploads} uploads of this account are already in progress.`, 5)
  return withLease(services, lease, () => receiveFile(exchange, services, { ...reception, ownerId: caller.user.id }))
}
