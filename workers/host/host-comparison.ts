import { appOf, type ContainerState, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { stopGraceSeconds } from '../../activities/containers/spec.ts'
import type { Boot } from '../../activities/hosts/boot.ts'
import { unpauseAbandoned } from '../../activities/snapshots/app-freeze.ts'
import { spendAutorestart } from '../../db/apps/app-health.ts'
import * as apps from '../../db/apps/apps.ts'
import { alertOutOfMemory } from '../../db/apps/memory-alerts.ts'
import { type Db, transaction } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Backoff } from '../../lib/async/backoff.ts'
import { type Observation, type Verdict, verdict } from '../../policy/hosts/reconciliation.ts'
import { autorestart } from '../../policy/timeouts.ts'
import { appResidents, bringBack, enqueueStart } from './app-residents.ts'
import { removeLeftovers } from './host-leftovers.ts'
import { bringBackStrays, type StrayOptions, sweepStrays } from './host-strays.ts'
import { apart, settleEach } from './watch/apart.ts'
import { containersOf } from './watch/containers-of.ts'

export interface ComparisonOptions extends StrayOptions {
  db: Db
  /** Ends of containers that were started in another boot were not observed. */
  boot: Boot
  /** Rejects when another process has taken over this host. */
  held?(): Promise<void>
  /** Delays for applications that could not be brought back; default: until the next round. */
  returns?: Backoff
  /** Applications that failed in the previous round: another failure of theirs says nothing about the engine. */
  failing?: Set<string>
  /** Receives in each round the containers of some applications, or of all if `ids` is left out. */
  onContainers?(present: readonly ListedContainer[], ids?: ReadonlySet<string>): void
  /** As `onContainers`, with the rows. */
  onApps?(rows: readonly apps.HostApp[], ids?: ReadonlySet<string>): void
}

/**
 * Compares all rows and containers once; resolves to the applications that the next round must check again, because they are not yet in
 * their desired state. Containers are listed first, so that one without a row is certainly a stray.
 */
export async function reconcile(options: ComparisonOptions): Promise<Set<string>> {
  const { db, engine, hostId, boot } = options
  await boot.settle()
  const present = (await engine.list({ [labels.host]: hostId })).filter(isOfApp)
  options.onContainers?.(present)
  const { rows, aside, unsettled } = await compare(options, present, () => apps.listAppsOfHost(db, hostId))
  const ids = new Set(rows.map(({ id }) => id))
  await sweepStrays(options, appResidents(db), { containers: present, rowKeys: ids, aside })
  return unsettled
}

/** Databases have a watch of their own (databases/database-watch.ts). */
const isOfApp = (container: ListedContainer): boolean => container.labels[labels.database] === undefined

/**
 * Compares the rows and containers of some applications of a host whose boot is settled. Strays are left to the full comparison;
 * `hasStrays` reports containers without a row.
 */
export async function reconcileSome(
  options: ComparisonOptions,
  ids: ReadonlySet<string>,
): Promise<{ unsettled: Set<string>; hasStrays: boolean }> {
  const { db, engine, hostId } = options
  const listAll = () => engine.list({ [labels.host]: hostId })
  const present = await containersOf({ engine, hostId, label: labels.app, listAll }, ids)
  options.onContainers?.(present, ids)
  if (ids.size === 0) return { unsettled: new Set(), hasStrays: false }
  const { rows, unsettled } = await compare(options, present, () => apps.listAppsOfHost(db, hostId, [...ids]), ids)
  const rowIds = new Set(rows.map(({ id }) => id))
  return { unsettled, hasStrays: present.some(container => !rowIds.has(appOf(container))) }
}

/** `present` was listed before the rows are read. */
async function compare(
  options: ComparisonOptions,
  present: ListedContainer[],
  read: () => Promise<apps.HostApp[]>,
  ids?: ReadonlySet<string>,
): Promise<{ rows: apps.HostApp[]; aside: ReadonlySet<string>; unsettled: Set<string> }> {
  await unpauseAbandoned(options, present, (appId, act) => apart(options.log, { appId }, act))
  const containers = present.filter(container => container.labels[labels.role] !== 'build')
  const rows = await read()
  options.onApps?.(rows, ids)
  const residents = appResidents(options.db)
  const aside = await bringBackStrays(options, residents, containers, rows)
  const releases = new Map(rows.map(({ id, release }) => [id, String(release)]))
  // A paused container, a build and a version that does not serve are checked in each round until they have ended.
  const transient = (one: ListedContainer) =>
    one.status === 'paused' ||
    one.labels[labels.role] === 'build' ||
    one.labels[labels.release] !== releases.get(appOf(one))
  const unsettled = new Set([...aside, ...present.filter(one => releases.has(appOf(one)) && transient(one)).map(appOf)])
  // A round may process all applications, so it must not search through all others for each.
  const byRelease = new Map(containers.map(one => [`${appOf(one)}/${one.labels[labels.release]}`, one]))
  const { log, failing } = options
  const each = { log, failing, subjectOf: residents.subjectOf, words: residents.words.many }
  const settle = (app: apps.HostApp) => settleApp(options, app, byRelease.get(`${app.id}/${app.release}`))
  const here = rows.filter(row => !aside.has(row.id))
  for (const id of await settleEach(each, here, settle)) unsettled.add(id)
  await removeLeftovers(options, present, rows)
  return { rows, aside, unsettled }
}

/** Resolves to whether the application was already in its desired state. */
async function settleApp(
  options: ComparisonOptions,
  app: apps.HostApp,
  container: ListedContainer | undefined,
): Promise<boolean> {
  const { db, engine, boot, returns } = options
  const { id: bootId } = boot
  const rebooted = app.boot_id !== bootId
  if (container?.running) returns?.forget(app.id)
  if (verdict(observe(app, container ?? null), { rebooted, busy: false }) === 'nothing') return true
  if (await operations.isBusy(db, app.id)) return false
  // The list may be older than the row: decisions use a state that was read after the row.
  const fresh = container ? await engine.inspect(container.name) : null
  const decision = verdict(observe(app, fresh), { rebooted, busy: false })
  // A container that the engine took down as it stopped has not exited: the next round brings it back.
  if (decision === 'record-exit' && (await boot.settle()) !== bootId) return false
  await act(options, app, fresh, decision)
  return false
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
  { db, engine, locks, log, boot, held, returns }: ComparisonOptions,
  app: apps.HostApp,
  container: ContainerState | null,
  decision: Verdict,
): Promise<void> {
  if (decision === 'bring-back' && returns?.waits(app.id)) return
  await held?.()
  if (decision !== 'nothing') log.info({ appId: app.id, decision }, 'watch')
  if (decision === 'record-start' && container) {
    const startedAt = container.startedAt ?? new Date()
    const { id: containerId, hostPort, hostAddress } = container
    const started = { release: app.release, containerId, hostPort, hostAddress, startedAt, bootId: boot.id }
    await apps.recordStarted(db, app.id, started, app)
  }
  if (decision === 'bring-back') {
    await bringBack(db, app)
    returns?.seen(app.id)
  }
  if (decision === 'bring-down' && container)
    await locks(app.id, async () => {
      if (await staysStopped(db, app.id)) await engine.stop(container.name, stopGraceSeconds)
    })
  if (decision === 'record-exit') {
    const exit = {
      code: container?.exitCode ?? null,
      oom: container?.oom ?? false,
      at: container?.finishedAt ?? new Date(),
    }
    // One commit: a recorded exit is not processed again, so its restart would be lost.
    await transaction(db, async trx => {
      if (!(await apps.recordExit(trx, app, exit))) return
      if (exit.oom) await alertOutOfMemory(trx, app)
      if (restartsItself(app, exit) && (await spendAutorestart(trx, app.id))) await enqueueStart(trx, app)
    })
  }
}

/** Checked last, under the application's lock, so that a concurrent start is not undone. */
async function staysStopped(db: Db, appId: string): Promise<boolean> {
  if (await operations.isBusy(db, appId)) return false
  return (await apps.loadApp(db, appId))?.desired_state === 'stopped'
}

/** AUTORESTART (contract 5.11): after an exit status other than 0, when the program ran over 60 s. */
function restartsItself(app: apps.HostApp, exit: apps.RecordedExit): boolean {
  const ranMs = app.started_at ? exit.at.getTime() - app.started_at.getTime() : 0
  return app.autorestart && exit.code !== 0 && ranMs > autorestart.ranSeconds * 1000
}
