import { Agent } from 'node:http'
import { inspect } from 'node:util'
import type Docker from 'dockerode'
import type { EngineStanding } from '../port.ts'
import { call, unless } from './calls.ts'
import type { Cgroups } from './options.ts'

/** What an engine says of itself costs it much, as it counts all that it has; it is asked again after this. */
const aboutMs = 60_000

type About = Awaited<ReturnType<Docker['info']>>

/** A line for each request. The client shows each to itself, all objects in it as deep as they go: of an agent that takes seconds. */
export class FreshLines extends Agent {
  [inspect.custom](): string {
    return 'FreshLines'
  }
}

/** The engine as a whole. `fresh` opens a line for each question. */
export function engineStanding(fresh: Docker) {
  let about: { at: number; info: About } | undefined
  let seen: string | null | undefined

  async function info(): Promise<About> {
    if (!about || performance.now() - about.at > aboutMs)
      about = { at: performance.now(), info: await call(() => fresh.info()) }
    return about.info
  }

  /** When the network was made that containers without one of their own are in: anew at each start without running containers. */
  async function began(): Promise<string | null> {
    const bridge = await call(() => fresh.getNetwork('bridge').inspect()).catch(unless(404))
    return bridge?.Created ?? null
  }

  return {
    async standing(): Promise<EngineStanding> {
      try {
        const now = await began()
        if (now !== seen) about = undefined
        const { LiveRestoreEnabled } = await info()
        seen = now
        return { began: now, liveRestore: LiveRestoreEnabled === true }
      } catch (error) {
        about = undefined // it may come back with other settings
        throw error
      }
    },

    /** It was away, or is another one: it may have other settings now. */
    forget() {
      about = undefined
    },

    async cgroups(): Promise<Cgroups> {
      const { CgroupDriver, CgroupVersion } = await info()
      return { driver: CgroupDriver, version: CgroupVersion ?? '1' }
    },
  }
}
