import { z } from 'zod'
import { CodedError } from '../../../policy/errors.ts'
import { restoreBody } from '../snapshots/restore.ts'

const { snapshotId, versionId } = restoreBody.shape

/** Contract 12.18 and 12.25: a snapshot with its version, or a moment. */
export const databaseRestoreBody = z.object({
  snapshotId: snapshotId.optional(),
  versionId: versionId.optional(),
  timestamp: z.iso
    .datetime({ offset: true, error: 'INVALID_PARAMETERS' })
    // Cut, it would leave out what was committed in the rest of its millisecond.
    .refine(text => !/\.\d{3}\d*[1-9]/.test(text), 'INVALID_PARAMETERS')
    .optional()
    .describe(
      'Instead of a snapshot, for postgres: the moment whose contents come back, in ISO 8601 with a time zone, and milliseconds at the finest.',
    ),
})

export type RestoreSource = { name: string; version: string } | { to: Date }

/** Throws MISSING_PARAMETERS when neither is complete, INVALID_PARAMETERS for both. */
export function restoreSource({
  snapshotId: name,
  versionId: version,
  timestamp,
}: z.output<typeof databaseRestoreBody>): RestoreSource {
  if (timestamp !== undefined) {
    if (name === undefined && version === undefined) return { to: new Date(timestamp) }
    throw new CodedError('INVALID_PARAMETERS', 'Send either a snapshot with its version, or a timestamp.')
  }
  if (name === undefined || version === undefined) throw new CodedError('MISSING_PARAMETERS')
  return { name, version }
}
