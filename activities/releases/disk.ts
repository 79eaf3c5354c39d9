import { appendLog } from '../../db/deploys/deployments.ts'
import type { OperationKind } from '../../db/operations/operations.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { codeOf, diskFull } from '../../lib/folders/error-codes.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { removeWhole } from '../app-files/trash.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { VolumeLost } from '../volumes/port.ts'
import type { ReleaseFolders } from './files.ts'
import type { Release } from './release.ts'

/** Log line of a deployment that brings every file. */
export const newDiskLine = (source: 'git' | 'snapshot'): string =>
  `The disk of the application was no longer at its host. This deployment uses a new one: ${
    source === 'git' ? 'what the program itself had written' : 'what the program has written since the snapshot'
  } is lost.`

/**
 * Ensures the disk that a release is prepared on. Only a creation may create one. If the disk is lost, an upload of some files
 * would leave the application without all the others, so it rejects with VolumeLost. A push or a snapshot, which brings
 * every file of the application, gets a new disk and a line in its log.
 */
export async function ensureDiskFor(
  { db, volumes }: Pick<AppHostOptions, 'db' | 'volumes'>,
  kind: OperationKind,
  { appId, diskMb, source, deploymentId }: Release,
  uid: number,
): Promise<void> {
  if (kind === 'create') return volumes.ensure(appId, diskMb, uid)
  try {
    await volumes.ensure(appId, diskMb, uid, 'before')
  } catch (error) {
    const all = source?.kind === 'git' || source?.kind === 'snapshot' ? source.kind : null
    if (!(error instanceof VolumeLost) || !all) throw error
    if (deploymentId) await appendLog(db, deploymentId, `${newDiskLine(all)}\n`)
    await volumes.ensure(appId, diskMb, uid)
  }
}

/**
 * Runs work that writes into a volume. Only its owner can do something about a full disk, so that rejects with NoSpaceLeft and is not retried.
 * Any rejection for lack of space also removes the half-written files of a release that is not prepared yet.
 */
export async function withinDisk<T>(work: () => Promise<T>, unprepared: ReleaseFolders | null): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const full = diskFull.has(codeOf(error))
    if (!full && !(error instanceof NoSpaceLeft)) throw error
    // What cannot be removed now is removed with the release, or before its next attempt.
    if (unprepared) await removeWhole(unprepared.volume, unprepared.root).catch(ignoreError('removed with the release'))
    throw full
      ? new NoSpaceLeft('There is no disk space left for the files of the deployment.', { cause: error })
      : error
  }
}
