import { Agent } from 'node:http'
import { inspect } from 'node:util'
import type Docker from 'dockerode'
import type { EngineStanding } from '../port.ts'
import { call, unless } from './calls.ts'
import type { Cgroups } from './options.ts'

/** The engine's `info` is expensive, because it counts all its objects; it is queried again after this. */
const aboutMs = 60_000

type About = Awaited<ReturnType<Docker['info']>>

/** A new connection per request. The client inspects its options to the full depth for its debug log, which takes seconds for an agent. */
export class FreshConnections extends Agent {
  [inspect.custom](): string {
    return 'FreshConnections'
  }
}

/** The engine as a whole. `fresh` opens a connection for each request. */
export function engineStanding(fresh: Docker) {
  let about: { at: number; info: About } | undefined
  let lastStart: string | null | undefined

  async function info(): Promise<About> {
    if (!about || performance.now() - about.at > aboutMs)
      about = { at: performance.now(), info: await call(() => fresh.info()) }
    return about.info
  }

  /** When the engine's default network was created: again at each start without running containers. */
  async function defaultNetworkCreated(): Promise<string | null> {
    const bridge = await call(() => fresh.getNetwork('bridge').inspect()).catch(unless(404))
    return bridge?.Created ?? null
  }

  return {
    async standing(): Promise<EngineStanding> {
      try {
        const start = await defaultNetworkCreated()
        if (start !== lastStart) about = undefined
        const { LiveRestoreEnabled } = await info()
        lastStart = start
        return { began: start, liveRestore: LiveRestoreEnabled === true }
      } catch (error) {
        about = undefined // it may come back with other settings
        throw error
      }
    },

    async dataFolder(): Promise<string | null> {
      return (await info()).DockerRootDir || null
    },

    /** For an engine that was unreachable or replaced: its settings may have changed. */
    forget() {
      about = undefined
    },

    async cgroups(): Promise<Cgroups> {
      const { CgroupDriver, CgroupVersion } = await info()
      return { driver: CgroupDriver, version: CgroupVersion ?? '1' }
    },
  }
}
