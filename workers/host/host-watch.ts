import { setTimeout as sleep } from 'node:timers/promises'
import { type ContainerState, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { stopGraceSeconds } from '../../activities/containers/spec.ts'
import type { Boot } from '../../activities/hosts/boot.ts'
import { wakePaused } from '../../activities/snapshots/app-standstill.ts'
import * as apps from '../../db/apps/apps.ts'
import { alertOutOfMemory } from '../../db/apps/memory-alerts.ts'
import { type Db, transaction } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Backoff } from '../../lib/backoff.ts'
import { type Observation, type Verdict, verdict } from '../../policy/hosts/reconciliation.ts'
import { autorestart } from '../../policy/patience.ts'
import { failuresInARow, roundSeconds } from '../../policy/rounds.ts'
import { apart } from './apart.ts'
import { removeLeftovers } from './host-leftovers.ts'
import { bringBackStrays, type StrayOptions, sweepStrays } from './host-strays.ts'

export interface WatchOptions extends StrayOptions {
  /** Nobody saw the end of a container that was started in another one. */
  boot: Boot
  everySeconds?: number
  /** Rejects when another process is this host now. */
  held?(): Promise<void>
  /** How long applications wait that could not be brought back; left out: for the next round. */
  returns?: Backoff
  /** Told in each round what there is. */
  onContainers?(present: readonly ListedContainer[]): void
}

const gatherMs = 100

/** Records what happens to containers without an operation, until the signal aborts: exits, reboots, strays. */
export async function watchHost(options: WatchOptions, signal: AbortSignal): Promise<void> {
  const { engine, hostId, log, everySeconds = roundSeconds.hostWatch } = options
  let changed = () => {}
  const events = async () => {
    while (!signal.aborted) {
      await engine
        .watch({ [labels.host]: hostId }, () => changed(), signal)
        .catch(error => log.warn({ err: error }, 'watch: the event stream broke'))
      await sleep(500, undefined, { signal }).catch(() => {})
    }
  }
  const rounds = async () => {
    signal.addEventListener('abort', () => changed(), { once: true })
    while (!signal.aborted) {
      const pause = new AbortController()
      changed = () => pause.abort()
      await reconcile(options).catch(error => log.warn({ err: error }, 'watch: will look again'))
      await sleep(everySeconds * 1000, undefined, { signal: pause.signal }).catch(() => {})
      await sleep(gatherMs) // events come in bursts
    }
  }
  await Promise.all([events(), rounds()])
}

/** One comparison of rows and containers. Containers are listed first: one without a row then is a stray for certain. */
export async function reconcile(options: WatchOptions): Promise<void> {
  const { db, engine, hostId, boot } = options
  await boot.settle()
  const present = await engine.list({ [labels.host]: hostId })
  options.onContainers?.(present)
  await wakePaused(options, present, (appId, act) => apart(options.log, appId, act))
  const containers = present.filter(container => container.labels[labels.role] !== 'build')
  const rows = await apps.listAppsOfHost(db, hostId)
  const aside = await bringBackStrays(options, containers, rows)
  // One application that the engine cannot tell of, or not end, keeps none of the others waiting.
  let failures = 0
  // A round goes over all of them, every few seconds: nothing in it may search among all the others.
  const byRelease = new Map(containers.map(one => [`${one.labels[labels.app]}/${one.labels[labels.release]}`, one]))
  for (const app of rows.filter(row => !aside.has(row.id))) {
    const container = byRelease.get(`${app.id}/${app.release}`)
    const done = await apart(options.log, app.id, () => look(options, app, container))
    failures = done ? 0 : failures + 1
    if (failures === failuresInARow) throw new Error('The engine does not answer for one application after another.')
  }
  await removeLeftovers(options, present, rows)
  await sweepStrays(options, present, rows, aside)
}

async function look(options: WatchOptions, app: apps.HostApp, container: ListedContainer | undefined): Promise<void> {
  const { db, engine, boot, returns } = options
  const { id: bootId } = boot
  const rebooted = app.boot_id !== bootId
  if (container?.running) returns?.forget(app.id)
  if (verdict(observe(app, container ?? null), { rebooted, busy: false }) === 'nothing') return
  if (await operations.isBusy(db, app.id)) return
  // The list may be older than the row: what is acted upon was seen after the row.
  const fresh = container ? await engine.inspect(container.name) : null
  const decision = verdict(observe(app, fresh), { rebooted, busy: false })
  // What an engine takes down as it ends has not ended by itself: the next round brings it back.
  if (decision === 'record-exit' && (await boot.settle()) !== bootId) return
  await act(options, app, fresh, decision)
}

function observe(app: apps.HostApp, container: ListedContainer | null): Observation {
  return {
    status: app.status,
    desired: app.desired_state,
    hostPort: app.host_port,
    container: container ? { running: container.running, hostPort: container.hostPort } : null,
  }
}

async function act(
  { db, engine, turns, log, boot, held, returns }: WatchOptions,
  app: apps.HostApp,
  container: ContainerState | null,
  decision: Verdict,
): Promise<void> {
  if (decision === 'bring-back' && returns?.waits(app.id)) return
  await held?.()
  if (decision !== 'nothing') log.info({ appId: app.id, decision }, 'watch')
  if (decision === 'record-start' && container) {
    const startedAt = container.startedAt ?? new Date()
    await apps.recordStarted(db, app.id, {
      release: app.release,
      containerId: container.id,
      hostPort: container.hostPort,
      hostAddress: container.hostAddress,
      startedAt,
      bootId: boot.id,
    })
  }
  if (decision === 'bring-back') {
    await enqueueStart(db, app)
    returns?.seen(app.id)
  }
  if (decision === 'bring-down' && container)
    await turns(app.id, async () => {
      if (await staysStopped(db, app.id)) await engine.stop(container.name, stopGraceSeconds)
    })
  if (decision === 'record-exit') {
    const exit = {
      code: container?.exitCode ?? null,
      oom: container?.oom ?? false,
      at: container?.finishedAt ?? new Date(),
    }
    // One commit: an exit that is on record is not looked at again, so its restart would be lost.
    await transaction(db, async trx => {
      if (!(await apps.recordExit(trx, app, exit))) return
      if (exit.oom) await alertOutOfMemory(trx, app)
      if (restartsItself(app, exit) && (await apps.spendAutorestart(trx, app.id))) await enqueueStart(trx, app)
    })
  }
}

/** Asked last, in the application's turn, so that a start which came meanwhile is not taken back. */
async function staysStopped(db: Db, appId: string): Promise<boolean> {
  if (await operations.isBusy(db, appId)) return false
  return (await apps.loadApp(db, appId))?.desired_state === 'stopped'
}

/** AUTORESTART (contract 5): after an exit status other than 0, when the program ran over 60 s. */
function restartsItself(app: apps.HostApp, exit: apps.Exit): boolean {
  const ranMs = app.started_at ? exit.at.getTime() - app.started_at.getTime() : 0
  return app.autorestart && exit.code !== 0 && ranMs > autorestart.ranSeconds * 1000
}

async function enqueueStart(db: Db, app: apps.HostApp): Promise<void> {
  await operations.enqueue(db, { targetId: app.id, kind: 'start', ownerId: app.owner_id, actor: 'host-watch' })
}
