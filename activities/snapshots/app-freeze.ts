import { ignoreError } from '../../lib/async/ignore-error.ts'
import { appOf, type ContainerHost, type ContainerState, type ListedContainer, labels } from '../containers/port.ts'
import type { AppLocks } from '../steps/app-locks.ts'

/** Freezes a program for the last pass of its snapshot. */
export interface AppFreeze {
  /** Takes the application's lock and freezes its containers. When one cannot be frozen, rejects after resuming the others. */
  pause(): Promise<void>
  /** Resumes the containers and releases the lock. Nothing paused is success. */
  resume(): Promise<void>
}

export interface FreezeHost {
  engine: ContainerHost
  locks: AppLocks
  hostId: string
}

/**
 * Holds the application's lock from pause to resume, so that nothing stops, replaces or writes to a frozen container: a paused
 * one cannot be stopped. If this process dies meanwhile, the next one unpauses the containers (`unpauseAbandoned`).
 */
export function appFreeze(host: FreezeHost, appId: string): AppFreeze {
  const running = () => containers(host, appId, 'running')
  let release: (() => void) | null = null
  return {
    pause: () =>
      new Promise((resolve, reject) => {
        const held = host.locks(appId, async () => {
          try {
            for (const { name } of await running()) await host.engine.pause(name)
          } catch (error) {
            await unpauseAll(host, appId).catch(ignoreError('the host watch tries again'))
            return reject(error)
          }
          await new Promise<void>(end => {
            release = end
            resolve()
          })
        })
        held.catch(reject) // no lock: this process may not act as its host now
      }),
    async resume() {
      const end = release
      release = null
      if (end) await unpauseAll(host, appId).finally(end)
    },
  }
}

/**
 * Unpauses containers that no snapshot holds: the process that paused them has died, or they, or a build, were paused by hand. `each` runs
 * the work for one application, so that its failure holds up no other.
 */
export async function unpauseAbandoned(
  host: FreezeHost,
  present: readonly ListedContainer[],
  each: (appId: string, act: () => Promise<void>) => Promise<unknown> = (_, act) => act(),
): Promise<void> {
  const paused = present.filter(({ status }) => status === 'paused')
  const builds = paused.filter(container => container.labels[labels.role] === 'build')
  for (const build of builds) await each(appOf(build), () => host.engine.unpause(build.name))
  for (const appId of new Set(paused.map(appOf)))
    if (appId && !host.locks.busy(appId)) await each(appId, () => host.locks(appId, () => unpauseAll(host, appId)))
}

async function unpauseAll(host: FreezeHost, appId: string): Promise<void> {
  for (const { name } of await containers(host, appId, 'paused')) await host.engine.unpause(name)
}

async function containers(
  { engine, hostId }: FreezeHost,
  appId: string,
  status: ContainerState['status'],
): Promise<ListedContainer[]> {
  const listed = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  return listed.filter(container => container.status === status)
}
