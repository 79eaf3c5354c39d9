import * as deployments from '../db/deployments.ts'
import { runtimes } from '../policy/runtimes.ts'
import type { AppHostOptions } from './app-host.ts'
import { buildContainer, tenantNetwork } from './container-spec.ts'
import { refusal } from './failures.ts'
import { installFolder } from './install-plan.ts'
import type { Release } from './release.ts'
import { exists, keepDependencies, type ReleaseFolders } from './release-files.ts'

/** Output is written to the deployment's log at most this often, and at most this much of it is kept, in bytes. */
const flushMs = 500
const maxLogBytes = 4 * 1024 * 1024

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
  const log = deploymentLog(text =>
    release.deploymentId ? deployments.appendLog(db, release.deploymentId, text) : Promise.resolve(),
  )
  const owned = { ...release, uid: host.sharedUid ?? release.uid }
  const spec = buildContainer(owned, await installFolder(folders), install, host.traits)
  try {
    await engine.ensureNetwork(tenantNetwork(release.ownerId, host.traits.id))
    await engine.ensureImage(spec.image, line => log.add(`${line}\n`))
    await engine.remove(spec.name) // what a killed attempt left
    const { exitCode, oom } = await engine.runToEnd(spec, text => log.add(text), signal)
    if (oom)
      throw refusal('BUILD_FAILED', `Installing the dependencies needed more than ${spec.memoryMb} MB of memory.`)
    if (exitCode !== 0)
      throw refusal('BUILD_FAILED', `Installing the dependencies ended with exit code ${exitCode}.`)
  } finally {
    await log.close()
  }
  const { dependencies } = runtimes[release.language]
  if (dependencies) await keepDependencies(folders, dependencies.from)
}

/** Gathers output and writes it in order; a write that fails is tried with the next one. */
function deploymentLog(append: (text: string) => Promise<unknown>) {
  let pending = ''
  let written = 0
  let last = ''
  let writing = Promise.resolve()
  const flush = () => {
    writing = writing.then(async () => {
      if (!pending || written >= maxLogBytes) return
      const text = pending
      pending = ''
      await append(text).then(
        () => {
          written += text.length
        },
        () => {
          pending = text + pending
        },
      )
    })
    return writing
  }
  const timer = setInterval(flush, flushMs)
  return {
    add(text: string) {
      const clean = text.replaceAll('\u0000', '')
      pending += clean
      last = (last + clean).slice(-2000)
    },
    /** The last lines, for a message. */
    tail: () => last.trim().split('\n').slice(-5).join(' | ').slice(-600),
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}
