import { rename } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { installRules, isFresh } from '../../policy/hosts/installs.ts'
import { removeWhole } from '../app-files/trash.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import type { Installed, Prepared, ReleaseFolders } from '../releases/files.ts'
import { releasePlacement } from '../releases/placement-request.ts'
import type { Release } from '../releases/release.ts'
import { SnapshotCorrupt } from '../snapshots/port.ts'
import { emptyFolder } from './inputs.ts'
import { enterReading } from './slots.ts'

/**
 * Unpacks a stored result of the account into the folder `dependencies` of a release, as the application's user, and compares its digest.
 * Null when there is none that may be used; a damaged one is removed. Rejects with NoSpaceLeft.
 */
export async function unpackStored(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  request: Pick<Installed, 'key' | 'facts' | 'isPinned'>,
  signal: AbortSignal,
): Promise<Pick<Prepared, 'dependencies' | 'installed'> | 'damaged' | null> {
  const { key, isPinned } = request
  const { volume, install, build } = folders
  const stored = await host.installs?.open(release.ownerId, key)
  if (!stored) return null
  try {
    if (!isFresh(stored.at, isPinned, Date.now())) return null
    const owner = releasePlacement(host).ownerOf(release)
    await emptyFolder(folders, 'install', owner)
    const leave = await enterReading(release.ownerId, signal)
    const deadline = deadlineSignal(installRules.copySeconds * 1000, signal)
    const { digest } = await host.snapshots.unpack(stored.file, install, owner, deadline).finally(leave)
    if (digest !== stored.digest) throw new SnapshotCorrupt('It holds other files than were installed.')
    await rename(install, folders.dependencies)
    await removeWhole(volume, build)
    const at = new Date(stored.at).toISOString()
    return {
      dependencies: `reused from the cache of the account, installed at ${at}`,
      installed: { ...request, digest, at },
    }
  } catch (error) {
    signal.throwIfAborted()
    await removeWhole(volume, install)
    if (error instanceof NoSpaceLeft) throw error
    host.warn?.({ appId: release.appId, key, err: error }, 'installs: a stored result could not be used')
    if (!(error instanceof SnapshotCorrupt)) return null
    await host.installs!.drop(release.ownerId, key)
    return 'damaged'
  } finally {
    await stored.file.close().catch(ignoreError('it was only read'))
  }
}
