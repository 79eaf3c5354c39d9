import * as deployments from '../db/deployments.ts'
import { runtimes } from '../policy/runtimes.ts'
import type { AppHostOptions } from './app-host-options.ts'
import { buildContainer, buildNetwork } from './container-spec.ts'
import { deploymentLog } from './deployment-log.ts'
import { refusal } from './failures.ts'
import { installFolder } from './install-plan.ts'
import type { Release } from './release.ts'
import { exists, keepDependencies, type ReleaseFolders } from './release-files.ts'

/** Runs the install step of a release to its end. Throws BUILD_FAILED with the last lines when it does not succeed. */
export async function installRelease(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  install: string,
  signal: AbortSignal,
): Promise<void> {
  if (await exists(folders.dependencies)) return
  const { db, engine } = host
  const log = deploymentLog(async (text, mostBytes) =>
    release.deploymentId ? deployments.appendLog(db, release.deploymentId, text, mostBytes) : true,
  )
  const owned = { ...release, uid: host.sharedUid ?? release.uid }
  const disk = await host.disk?.(release.appId)
  const spec = { ...buildContainer(owned, await installFolder(folders), install, host.traits), disk }
  try {
    await engine.ensureNetwork(buildNetwork(host.traits.id))
    await engine.ensureImage(spec.image, line => void log.add(`${line}\n`))
    await engine.remove(spec.name) // what a killed attempt left
    const { exitCode, oom } = await engine.runToEnd(spec, text => log.add(text), signal)
    if (oom)
      throw refusal('BUILD_FAILED', `Installing the dependencies needed more than ${spec.memoryMb} MB of memory.`)
    if (exitCode !== 0) throw refusal('BUILD_FAILED', `Installing the dependencies ended with exit code ${exitCode}.`)
  } finally {
    await log.close()
  }
  const { dependencies } = runtimes[release.language]
  if (dependencies) await keepDependencies(folders, dependencies.from)
}
