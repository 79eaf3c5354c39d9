import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { withoutFolders } from '../../../lib/without-folders.ts'
import { type ContainerHost, labels } from '../../containers/port.ts'
import { SnapshotCorrupt } from '../../snapshots/port.ts'
import type { Volumes } from '../../volumes/port.ts'
import { JobFailed } from '../dump-jobs.ts'
import { databaseVolume } from '../names.ts'
import { EngineUnavailable } from '../port.ts'
import type { DatabaseStep } from '../steps.ts'

/** What a drill has shown of a snapshot. */
export interface DrillResult {
  /** Of the restored contents; null when they could not be restored. */
  digest: string | null
  /** Why the snapshot is not good, or could not be tried; null = it is good. */
  reason: string | null
  /** Catalogue code of the reason; omitted = SNAPSHOT_CORRUPT. */
  code?: string
}

/** Restores a snapshot by `restore`, which resolves to the digest of the contents, and compares it. What only the host lacks is thrown: it proves nothing about the snapshot. */
export async function triedSnapshot(
  expected: string | null,
  signal: AbortSignal,
  restore: () => Promise<string>,
): Promise<DrillResult> {
  try {
    const digest = await restore()
    const isEqual = expected === null || digest === expected
    return {
      digest,
      reason: isEqual ? null : 'The restored copy has other contents than were recorded with the snapshot.',
    }
  } catch (error) {
    if (signal.aborted || !isCorrupt(error)) throw error
    return { digest: null, reason: error.message }
  }
}

function isCorrupt(error: unknown): error is Error {
  if (error instanceof SnapshotCorrupt) return true
  return error instanceof ApplicationFailure && error.type === 'SNAPSHOT_CORRUPT'
}

/** Another attempt may read it: an archive that was not read shows nothing, unlike one that is missing or damaged. */
export function notRead(error: unknown): never {
  if (isCorrupt(error) || error instanceof NoSpaceLeft || !(error instanceof Error)) throw error
  throw restoreFailed('The archive of the snapshot could not be read', error)
}

/**
 * What neither the snapshot nor its engine has caused, such as a host that cannot be reached, shows nothing of the snapshot, and gets a code
 * that says so. Failures with a code of their own stay.
 */
export function notTried(error: unknown): never {
  const isOfEngine = error instanceof EngineUnavailable || error instanceof JobFailed
  if (error instanceof TemporalFailure || error instanceof NoSpaceLeft || isCorrupt(error) || isOfEngine) throw error
  throw restoreFailed('The snapshot could not be tried', error instanceof Error ? error : new Error(String(error)))
}

const restoreFailed = (words: string, cause: Error): ApplicationFailure =>
  ApplicationFailure.create({
    message: `${words}: ${withoutFolders(cause.message)}`,
    type: 'SNAPSHOT_RESTORE_FAILED',
    cause,
  })

interface DrillPlace {
  engine: Pick<ContainerHost, 'list' | 'remove'>
  volumes: Pick<Volumes, 'remove'>
  hostId: string
}

/** Removes the volumes of a drill, and the containers that work on them. One that has reserved no volumes has left nothing. */
export async function removeDrill({ engine, volumes, hostId }: DrillPlace, { databaseId: id, input }: DatabaseStep) {
  const reserved = Object.values((input.volumes as Record<string, number> | undefined) ?? {})
  const containers = await engine.list({ [labels.host]: hostId, [labels.database]: id })
  for (const { name, labels: of } of containers)
    if (reserved.includes(Number(of[labels.release]))) await engine.remove(name)
  for (const generation of reserved) await volumes.remove(databaseVolume({ id, generation }))
}
