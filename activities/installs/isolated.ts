import { join } from 'node:path'
import { isCleanInstall, recordDependencies } from '../../db/deploys/deployments.ts'
import { installSeconds } from '../../policy/hosts/host-slots.ts'
import { installRules, notForReuse, shortWords } from '../../policy/hosts/installs.ts'
import { namesForInstall, runtimes } from '../../policy/runtimes.ts'
import { removeWhole } from '../app-files/trash.ts'
import { buildTraits } from '../builds/build-traits.ts'
import { buildContainerName, type HostTraits } from '../containers/spec.ts'
import { isRefusal } from '../failures.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { exists, type Prepared, type ReleaseFolders, writePrepared } from '../releases/files.ts'
import {
  finishInstall,
  installRelease,
  type ReadyInstall,
  readyInstall,
  runInstall,
  tooSlow,
} from '../releases/install.ts'
import { installFolder } from '../releases/install-plan.ts'
import { releasePlacement } from '../releases/placement-request.ts'
import type { Release } from '../releases/release.ts'
import { fileIn } from '../releases/root-names.ts'
import { buildCompiled } from './compiled.ts'
import { earlierWith, forgetResult, installDigestOf } from './earlier.ts'
import { inputFiles, layInputs } from './inputs.ts'
import { certificatesIn, installFacts, installKey } from './key.ts'

type Planned = Prepared & { install: string; isClean: boolean }
type Inputs = NonNullable<Prepared['inputs']>

/**
 * Runs the install step of a prepared release. Where it depends on some files only, it sees no others, and its result is recorded so that
 * it can be used again. Where only the result shows whether it does, it may run a second time, among all files, in what is left of its time. Throws as `installRelease`.
 */
export async function installPrepared(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  planned: Prepared & { install: string },
  signal: AbortSignal,
  maxSeconds: number = installSeconds,
): Promise<void> {
  // What a killed host left. Its container writes until it is removed, and the result may have its name already.
  await host.engine.remove(buildContainerName(release))
  if (await exists(folders.dependencies))
    return removeWhole(folders.volume, folders.build, folders.install, folders.tools)
  // Records of older versions do not say it.
  const isClean = planned.isClean ?? (await isCleanInstall(host.db, release.deploymentId))
  const prepared: Planned = { ...planned, isClean }
  const { inputs } = prepared
  const { dependencies, toolFolders } = runtimes[release.language]
  if (dependencies && toolFolders) return buildCompiled(host, release, folders, prepared, signal, maxSeconds)
  const files = inputs && (await inputFiles([await installFolder(folders)], inputs.files))
  if (!dependencies || !inputs || !files || 'because' in files)
    return installAmongAll(host, release, folders, prepared, signal, maxSeconds)
  const startedAt = performance.now()
  const needsMore = await installAlone(host, release, folders, { prepared, inputs, files }, signal, maxSeconds)
  if (!needsMore) return
  const seconds = Math.floor(maxSeconds - (performance.now() - startedAt) / 1000)
  if (seconds <= 0) throw needsMore.failure ?? tooSlow(maxSeconds)
  await removeWhole(folders.volume, folders.install)
  // The next attempt at this step sees all files from its start.
  const { inputs: _, ...rest } = prepared
  const plan = { ...rest, ...(needsMore.key && { needsMore: { ...needsMore, key: needsMore.key } }) }
  await writePrepared(folders, plan)
  await recordNotForReuse(host, release, needsMore.because)
  await installAmongAll(host, release, folders, plan, signal, seconds)
}

/** Runs the step among all files, and records before it on what else its result depends: a commit that changes neither keeps it. */
async function installAmongAll(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  plan: Planned,
  signal: AbortSignal,
  seconds: number,
): Promise<void> {
  const beforeRun = async ({ spec, imageId }: ReadyInstall, { caBundle }: HostTraits) => {
    const certificates = await certificatesIn(caBundle)
    const on = { release, spec, architecture: process.arch, certificates, files: new Map() }
    await writePrepared(folders, {
      ...plan,
      isOfAll: true,
      ...(imageId && { facts: installFacts({ ...on, imageId }) }),
    })
  }
  await installRelease(host, release, folders, { ...plan, beforeRun }, signal, seconds)
}

/** Runs the step with these files only. Resolves to why it needs more, if it does: with the key for which that is so, or how it has failed. */
async function installAlone(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  { prepared, inputs, files }: { prepared: Planned; inputs: Inputs; files: ReadonlyMap<string, Buffer> },
  signal: AbortSignal,
  seconds: number,
): Promise<{ because: string; key?: string; failure?: unknown } | null> {
  const { from } = runtimes[release.language].dependencies!
  await layInputs(folders, files, releasePlacement(host).ownerOf(release))
  const traits = await buildTraits(host)
  const certificates = await certificatesIn(traits.caBundle)
  const { install, isClean } = prepared
  const ready = await readyInstall(host, release, { install, folder: folders.install, traits })
  const { spec, imageId } = ready
  const facts = imageId && installFacts({ release, spec, imageId, architecture: process.arch, certificates, files })
  const key = facts ? installKey(facts) : undefined
  if (isClean && key) await forsake(host, release, folders, key)
  try {
    await runInstall(host, release, { ...ready, folder: folders.install, isClean }, signal, seconds)
  } catch (failure) {
    if (!inputs.isShownAfter || !isRefusal(failure, 'BUILD_FAILED')) throw failure
    return { because: 'it failed without the other files', failure }
  }
  const output = join(folders.install, from)
  const shown = await shownBy(release, folders.install, inputs, files)
  if (shown.needsMore) return { because: shortWords(shown.needsMore), ...(key && { key }) }
  // A folder that cannot be hashed in time serves this release, and no other.
  const outputDigest = await installDigestOf(host.snapshots, output, release.ownerId, signal).catch(() => null)
  signal.throwIfAborted()
  const at = new Date()
  if (shown.leftOut) await recordNotForReuse(host, release, shown.leftOut)
  if (!outputDigest || !facts || !key || shown.leftOut) {
    if (facts) await writePrepared(folders, { ...prepared, facts })
    await finishInstall(host, release, folders, folders.install)
    return null
  }
  const { digest, bytes } = outputDigest
  // Before the folder gets its name: a record without its folder is used by no one.
  const installed = { key, facts, isPinned: inputs.isPinned, digest, at: at.toISOString() }
  await writePrepared(folders, { ...prepared, installed })
  await finishInstall(host, release, folders, folders.install)
  const result = { folder: folders.dependencies, digest, bytes, at: at.getTime() }
  host.installs?.keep(release.ownerId, key, result)
  return null
}

/**
 * Nothing that an earlier step with this key has installed is used again, neither what is stored nor what releases of this application
 * have: also where the build without the cache that is beginning fails, or its result cannot be stored.
 */
async function forsake(
  { installs }: AppHostOptions,
  { ownerId, number }: Release,
  { volume }: ReleaseFolders,
  key: string,
): Promise<void> {
  await installs?.drop(ownerId, key)
  for (const { release } of await earlierWith(volume, number, key)) await forgetResult(volume, release, 'forsaken')
}

async function recordNotForReuse({ db }: AppHostOptions, { deploymentId }: Release, because: string): Promise<void> {
  if (deploymentId) await recordDependencies(db, deploymentId, notForReuse(because))
}

/** Why the result of a step shows that it needs all files, or is not known to be complete; null for what it does not show. */
async function shownBy(
  { language }: Release,
  folder: string,
  { isShownAfter }: Inputs,
  files: ReadonlyMap<string, Buffer>,
): Promise<{ needsMore: string | null; leftOut: string | null }> {
  const { installReport, leftOut, dependedOnMore, dependencies, writtenLock } = runtimes[language]
  const textOf = (path: string, name: string) => fileIn(path, name, installRules.inputBytes).catch(() => null)
  const report = installReport ? await textOf(join(folder, dependencies!.from), installReport([...files.keys()])) : null
  const written = writtenLock ? await textOf(folder, writtenLock) : null
  const needsMore = isShownAfter ? dependedOnMore!(report) : null
  if (needsMore || !leftOut) return { needsMore, leftOut: null }
  const read = namesForInstall(language).filter(name => files.has(name))
  const texts = new Map(read.map(name => [name, files.get(name)!.toString('utf8')]))
  return { needsMore, leftOut: leftOut(texts, written, report, process.arch) }
}
