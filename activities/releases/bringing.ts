import * as apps from '../../db/apps/apps.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import { emptySource, type Prepared, type ReleaseFolders, writePrepared } from './files.ts'
import { planInstall } from './install-plan.ts'
import type { Release } from './release.ts'
import { bringSource } from './source.ts'

/** Brings the files of a release into its own folders and plans its install step. Both are synced before the marker is written. */
export async function bringRelease(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  owner: Owner | null,
  signal: AbortSignal,
): Promise<Prepared> {
  await emptySource(folders, owner)
  const configured = await bringSource(host, release, folders, owner, signal)
  const app = await apps.loadApp(host.db, release.appId)
  const where = { volume: folders.volume, app, owner, configNames: host.traits.configNames, signal }
  const prepared = await planInstall({ ...release, ...configured }, where)
  // A marker that survives a power cut proves that all of this is on the disk.
  await host.volumes.flush(release.appId)
  signal.throwIfAborted()
  await writePrepared(folders, { ...prepared, deploymentId: release.deploymentId })
  return prepared
}
