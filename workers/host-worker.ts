import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { appHostActivities } from '../activities/app-host.ts'
import { appSnapshotActivities } from '../activities/app-snapshots.ts'
import { appTurns } from '../activities/app-turns.ts'
import { routeGate } from '../activities/route-gate.ts'
import { strayBook } from '../activities/stray-book.ts'
import { beginBoot } from '../db/host-boots.ts'
import * as hosts from '../db/hosts.ts'
import { hostReadKey } from '../policy/keys.ts'
import { withCrashPoints } from './crash-points.ts'
import { watchMetrics } from './host-metrics.ts'
import type { HostParts } from './host-parts.ts'
import { serveHost } from './host-server.ts'
import { watchHost } from './host-watch.ts'
import { buildsQueue, hostQueue, snapshotsQueue } from './lanes.ts'
import { startWorker } from './temporal-worker.ts'

const seenEveryMs = 1000

/** Registers the host, serves its reads, runs its activities and keeps its containers and rows in step. */
export async function startHost(parts: HostParts) {
  const { config, log, db, engine, volumes, archives, store, protections } = parts
  const hostId = config.host.id
  const ending = new AbortController()

  // A volume that cannot be mounted is its application's trouble, not every application's.
  await volumes
    .remountAll()
    .catch(error => log.error({ error: String(error), causes: error.errors?.map(String) }, 'volumes'))
  const key = hostReadKey(config.masterKey, hostId)
  const { address, streamPort: port } = config.host
  const turns = appTurns()
  const reads = await serveHost({ engine, volumes, hostId, turns, key, address, port, log })
  await hosts.registerHost(db, { id: hostId, address, readUrl: reads.url, protections, ...parts.capacity })

  await beginBoot(db, hostId, parts.bootId)

  const strays = strayBook(join(config.dataDir, 'hosts', hostId, 'strays.json'))
  const loops = [
    stayVisible(parts, ending.signal, log),
    watchHost({ db, engine, volumes, turns, hostId, bootId: parts.bootId, log, strays }, ending.signal),
    watchMetrics({ db, engine, hostId, log }, ending.signal),
  ]
  const options = {
    db,
    engine: withCrashPoints('engine', engine),
    volumes: withCrashPoints('volumes', volumes),
    archives: withCrashPoints('archives', archives),
    store: withCrashPoints('store', store),
    traits: parts.traits,
    sharedUid: parts.sharedUid,
    bootId: parts.bootId,
    routed: routeGate(db, hostId, parts.bootId),
    placement: withCrashPoints('placement', parts.placement),
    snapshots: withCrashPoints('snapshots', parts.snapshots),
    turns,
    git: withCrashPoints('git', parts.git),
    gitLimits: parts.gitLimits,
    credentials: parts.credentials,
    variables: parts.variables,
    healthGateSeconds: config.host.healthGateSeconds,
  }
  const activities = withCrashPoints('host', appHostActivities(options))
  const commands = await startWorker(config, log, {
    taskQueue: hostQueue(config.queuePrefix, hostId),
    activities,
    maxConcurrentActivityTaskExecutions: 20,
  })
  const builds = await startWorker(config, log, {
    taskQueue: buildsQueue(config.queuePrefix, hostId),
    activities,
    maxConcurrentActivityTaskExecutions: config.host.buildSlots,
  })
  const copies = await startWorker(config, log, {
    taskQueue: snapshotsQueue(config.queuePrefix, hostId),
    activities: withCrashPoints('host', appSnapshotActivities(options)),
    maxConcurrentActivityTaskExecutions: 1,
  })
  return {
    ended: Promise.race([commands.ended, builds.ended, copies.ended]),
    async stop() {
      ending.abort()
      await hosts.leaveHost(db, hostId).catch(() => {})
      await Promise.all([commands.stop(), builds.stop(), copies.stop()])
      await Promise.all(loops)
      await new Promise(resolve => {
        reads.server.close(resolve)
        reads.server.closeAllConnections()
      })
    },
  }
}

/**
 * One sign of life a second, as long as the engine answers too: a host without its engine can carry nothing out and knows
 * nothing of its containers, so it counts as silent.
 */
async function stayVisible({ db, config, engine }: HostParts, signal: AbortSignal, log: Logger): Promise<void> {
  while (!signal.aborted) {
    await engine
      .ping()
      .then(() => hosts.seeHost(db, config.host.id))
      .catch(error => log.warn({ err: error }, 'no sign of life: the engine or the database does not answer'))
    await sleep(seenEveryMs, undefined, { signal }).catch(() => {})
  }
}
