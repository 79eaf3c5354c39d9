import { appHostActivities } from '../../../activities/app-host.ts'
import { appSnapshotActivities } from '../../../activities/app-snapshots.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import type { Db } from '../../../db/database.ts'
import { FakeContainerHost } from '../fakes/container-host.ts'
import { inBoot } from './boots.ts'

/**
 * The activities of a host whose parts tell what is asked of them. Only the engine answers as a real one; `folder` is its volumes'.
 * `own` takes the place of other parts.
 */
export function hostSteps(db: Db, hostId: string, folder: string, own: Partial<AppHostOptions> = {}) {
  const calls: string[] = []
  const engine = new FakeContainerHost()
  const options: AppHostOptions = {
    db,
    engine: recorded(calls, 'engine', engine),
    volumes: recorded(calls, 'volumes', { path: (appId: string) => `${folder}/${appId}` }),
    archives: recorded(calls, 'archives', {}),
    store: recorded(calls, 'store', {}),
    placement: recorded(calls, 'placement', {
      inSlot: (_account: string, _signal: AbortSignal, work: () => Promise<unknown>) => work(),
      place: async () => ({ added: [], modified: [], removed: [] }),
    }),
    snapshots: recorded(calls, 'snapshots', {}),
    git: recorded(calls, 'git', {}),
    gitLimits: { maxBytes: 1, timeoutSeconds: 1, allowedHosts: [] },
    traits: { id: hostId, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
    healthGateSeconds: 1,
    locks: appLocks(),
    credentials: async () => null,
    variables: async () => ({ version: 0, values: {} }),
    sharedUid: null,
    boot: inBoot('boot'),
    appsDomain: 'apps.test',
    diskMbPer256Mb: 10,
    ...own,
  }
  return {
    calls,
    engine,
    activities: appHostActivities(options),
    snapshots: appSnapshotActivities({ ...options, slots: snapshotSlots(db) }),
  }
}

const looksOnly = new Set([
  'placement.inSlot',
  'engine.inspect',
  'engine.list',
  'engine.logs',
  'volumes.path',
  'volumes.waits',
])

/** The part, which writes down every verb that does more than look; a verb that it does not have does nothing. */
function recorded<T extends object>(calls: string[], name: string, part: object): T {
  return new Proxy(part, {
    get(target, key) {
      const verb = Reflect.get(target, key)
      return (...args: unknown[]) => {
        const called = `${name}.${String(key)}`
        if (!looksOnly.has(called)) calls.push(called)
        return typeof verb === 'function' ? verb.apply(target, args) : Promise.resolve()
      }
    },
  }) as T
}
