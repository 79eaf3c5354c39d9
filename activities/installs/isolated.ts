import { join } from 'node:path'
import { recordDependencies } from '../../db/deploys/deployments.ts'
import { installRules } from '../../policy/hosts/installs.ts'
import { runtimes } from '../../policy/runtimes.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import { buildTraits } from '../builds/build-traits.ts'
import { exists, keepDependencies, type Prepared, type ReleaseFolders, writePrepared } from '../releases/files.ts'
import { installRelease, runInstall } from '../releases/install.ts'
import { installFolder } from '../releases/install-plan.ts'
import { releasePlacement } from '../releases/placement-request.ts'
import type { Release } from '../releases/release.ts'
import { fileIn } from '../releases/root-names.ts'
import { buildCompiled } from './compiled.ts'
import { digestOf } from './earlier.ts'
import { inputFiles, layInputs } from './inputs.ts'
import { certificatesIn, installFacts, installKey } from './key.ts'

/**
 * Runs the install step of a prepared release. Where it depends on some files only, it sees no others, and its result is recorded so that
 * it can be used again. Throws as `installRelease`.
 */
export async function installPrepared(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  prepared: Prepared & { install: string },
  signal: AbortSignal,
): Promise<void> {
  const { install, inputs } = prepared
  const { dependencies, toolFolders } = runtimes[release.language]
  if (dependencies && toolFolders) return buildCompiled(host, release, folders, install, signal)
  const files = inputs && (await inputFiles(await installFolder(folders), inputs.files))
  if (!dependencies || !inputs || !files) {
    await installRelease(host, release, folders, install, signal)
    return
  }
  if (await exists(folders.dependencies)) return
  await layInputs(folders, files, releasePlacement(host).ownerOf(release))
  const traits = await buildTraits(host)
  const certificates = await certificatesIn(traits.caBundle)
  const run = { install, folder: folders.install, traits, byId: true }
  const { spec, imageId } = await runInstall(host, release, run, signal)
  const output = join(folders.install, dependencies.from)
  // A folder that cannot be hashed in time serves this release, and no other.
  const made = await digestOf(host.snapshots, output, release.ownerId, signal).catch(() => null)
  signal.throwIfAborted()
  const facts = imageId && installFacts({ release, spec, imageId, architecture: process.arch, certificates, files })
  const at = new Date()
  const leftOut = await leftOutOf(release, output, files)
  if (leftOut && release.deploymentId)
    await recordDependencies(host.db, release.deploymentId, `installed, and not for reuse: ${leftOut}`)
  if (!made || !facts || leftOut) {
    await keepDependencies(folders, folders.install, dependencies.from)
    return
  }
  const [key, { digest, bytes }] = [installKey(facts), made]
  // Before the folder gets its name: a record without its folder is used by no one.
  const installed = { key, facts, isPinned: inputs.isPinned, digest, at: at.toISOString() }
  await writePrepared(folders, { ...prepared, installed })
  await keepDependencies(folders, folders.install, dependencies.from)
  const result = { folder: folders.dependencies, digest, bytes, at: at.getTime() }
  host.installs?.keep(release.ownerId, key, result)
}

/** Why the output of a step is not known to be complete; null when it is. */
async function leftOutOf(
  { language }: Release,
  output: string,
  files: ReadonlyMap<string, Buffer>,
): Promise<string | null> {
  const { installReport, leftOut } = runtimes[language]
  if (!installReport || !leftOut) return null
  const texts = new Map([...files].map(([name, bytes]) => [name, bytes.toString('utf8')]))
  const report = await fileIn(output, installReport, installRules.inputBytes).catch(() => null)
  return leftOut(texts, report, process.arch)
}
