import * as apps from '../../db/apps/apps.ts'
import { isCleanInstall, recordDependencies } from '../../db/deploys/deployments.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { digestAhead, mayKeepInstalled, type ReuseTerms, reuseInstall } from '../installs/reuse.ts'
import { emptySource, exists, type Prepared, type ReleaseFolders, releaseFolders, writePrepared } from './files.ts'
import { type KeptWith, type PlannedOn, planInstall } from './install-plan.ts'
import type { Release, Source } from './release.ts'
import { bringSource } from './source.ts'

/** Sources that may bring an unchanged manifest, so that what the serving release has installed is used again. */
const mayBringAll: ReadonlySet<Source['kind'] | undefined> = new Set(['git', 'archive'] as const)

/** Brings the files of a release into its own folders and plans its install step. Both are synced before the marker is written. */
export async function bringRelease(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  owner: Owner | null,
  signal: AbortSignal,
): Promise<Prepared> {
  const [app, isClean] = await allEnded([
    apps.loadApp(host.db, release.appId),
    isCleanInstall(host.db, release.deploymentId),
    emptySource(folders, owner),
  ])
  const serving = app?.release ?? 0
  const ahead =
    !isClean && mayBringAll.has(release.source?.kind)
      ? await digestAhead(host, release, folders.volume, serving, signal)
      : null
  const prepared = await bringAndPlan(host, release, folders, owner, { serving, ahead, isClean, signal }).finally(
    ahead?.end,
  )
  // A marker that survives a power cut proves that all of this is on the disk.
  await host.volumes.flush(release.appId)
  signal.throwIfAborted()
  await writeMarker(host, release, folders, { ...prepared, deploymentId: release.deploymentId, isClean })
  await recordWords(host, release, prepared)
  return prepared
}

/**
 * Writes the marker of a release. One that names a lender is written under the application's lock: what is settled or discarded there retains what
 * markers name. Rejects when the lender was removed since it was found, and the next attempt finds another.
 */
async function writeMarker(
  { locks }: AppHostOptions,
  { appId }: Release,
  folders: ReleaseFolders,
  prepared: Prepared,
): Promise<void> {
  const { dependenciesOf: lender } = prepared
  if (lender === null) return writePrepared(folders, prepared)
  await locks(appId, async () => {
    if (!(await exists(releaseFolders(folders.volume, lender).dependencies)))
      throw new Error(`The dependencies of release ${lender} were removed meanwhile.`)
    await writePrepared(folders, { ...prepared, isLent: true })
  })
}

/** Records where the dependencies of a prepared release come from. Again is no error: a process may have been killed before it did. */
export async function recordWords(
  { db }: AppHostOptions,
  { deploymentId }: Release,
  { dependencies }: Prepared,
): Promise<void> {
  if (deploymentId && dependencies) await recordDependencies(db, deploymentId, dependencies)
}

async function bringAndPlan(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  owner: Owner | null,
  terms: ReuseTerms,
): Promise<Prepared> {
  const { isClean, serving, signal } = terms
  const configured = { ...release, ...(await bringSource(host, release, folders, owner, signal)) }
  const app = await apps.loadApp(host.db, release.appId)
  const mayKeep = async (kept: KeptWith) => !isClean && mayKeepInstalled(host, release, folders, serving, kept)
  const reuse = (planned: PlannedOn) => reuseInstall(host, configured, folders, planned, terms)
  const { configNames } = host.traits
  return planInstall(configured, { volume: folders.volume, app, owner, configNames, mayKeep, reuse, signal })
}
