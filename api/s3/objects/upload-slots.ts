import { readRules } from '../../../db/objects/blob-rules.ts'
import { startUpload } from '../../../db/objects/uploads/upload-starts.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { RuleFields } from '../../../policy/objects/blob-rules.ts'
import type { Services } from '../../services.ts'
import { type HeldLease, withLease } from '../../uploads/blob-leases.ts'
import { smallBytes } from '../../uploads/small-bodies.ts'
import type { S3Call } from '../operation.ts'

type SlotWork<T, Held> = (held: Held, rules: readonly RuleFields[]) => Promise<T>

/**
 * Runs `work` with the rules of the account, and in one of its slots for uploads unless the body is stated to be small: then it will be
 * stored in its row, and occupies a connection and a few kilobytes. Throws SlowDown when all slots are taken.
 */
export async function inSlotUnlessSmall<T>(
  call: Pick<S3Call, 'caller'>,
  bytes: number,
  services: Services,
  work: SlotWork<T, HeldLease | null>,
): Promise<T> {
  if (bytes > smallBytes) return inUploadSlot(call, services, work)
  return work(null, await readRules(services.db, call.caller.user.id))
}

/** Runs `work` in one of the account's slots for uploads, with its rules. Throws SlowDown when all are taken. */
export async function inUploadSlot<T>(
  { caller }: Pick<S3Call, 'caller'>,
  services: Services,
  work: SlotWork<T, HeldLease>,
): Promise<T> {
  const { rules, lease } = await startUpload(services.db, caller.user.id, services.config.blob.concurrentUploads)
  if (!lease) throw new CodedError('TOO_MANY_CONCURRENT_UPLOADS', undefined, 1)
  return withLease(services, lease, held => work(held, rules))
}
