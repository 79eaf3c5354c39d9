import type { Logger } from 'pino'
import type { ContainerHost, ContainerState, ListedContainer } from '../../../activities/containers/port.ts'
import type { Boot } from '../../../activities/hosts/boot.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { forgetCrashes, recordRestartPlan, takeRestart } from '../../../db/databases/database-restarts.ts'
import {
  type HostDatabase,
  loadDatabase,
  recordDatabaseExit,
  recordDatabaseStarted,
} from '../../../db/databases/databases.ts'
import * as operations from '../../../db/operations/operations.ts'
import type { Backoff } from '../../../lib/async/backoff.ts'
import { engines } from '../../../policy/databases/engines.ts'
import {
  type DatabaseObservation,
  type DatabaseVerdict,
  databaseVerdict,
  hasEndedSince,
} from '../../../policy/databases/reconciliation.ts'
import { planRestart, type RestartPlan } from '../../../policy/databases/restarts.ts'
import { bringBack, startIf } from './database-residents.ts'

export interface SettlementOptions {
  db: Db
  engine: Pick<ContainerHost, 'inspect' | 'stop' | 'unpause'>
  /** Locks by the id of a database, shared with its activities. */
  locks: AppLocks
  log: Logger
  /** Ends of containers that were started in another boot were not observed. */
  boot: Boot
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
  /** Delays for databases that their host could not start. */
  returns: Backoff
  /** When restarts after crashes are due, in milliseconds since 1970, by database. */
  due: Map<string, number>
  /** Milliseconds since 1970. */
  now?: (() => number) | undefined
}

/** Resolves to whether the database was already as it should be. */
export async function settleDatabase(
  options: SettlementOptions,
  database: HostDatabase,
  container: ListedContainer | undefined,
): Promise<boolean> {
  const { db, engine, boot, returns, locks, due, now = Date.now } = options
  const { id } = database
  const { id: bootId } = boot
  const circumstances = { rebooted: database.boot_id !== bootId, busy: false, now: new Date(now()) }
  if (container?.running) returns.forget(id)
  due.delete(id)
  const first = databaseVerdict(observe(database, container ?? null), circumstances)
  if (first === 'nothing') return true
  if (first === 'await-restart' && database.restart_at) due.set(id, database.restart_at.getTime())
  if (first === 'await-restart' || locks.busy(id) || (await operations.isBusy(db, id, 'database'))) return false
  // The list may be older than the row: decisions use a state that was read after the row.
  const fresh = container ? await engine.inspect(container.name) : null
  const decision = databaseVerdict(observe(database, fresh), circumstances)
  // A container that the engine took down as it stopped has not exited: the next round brings it back.
  if (decision === 'record-exit' && (await boot.settle()) !== bootId) return false
  if (decision !== 'nothing' && !(decision === 'bring-back' && returns.waits(id))) {
    await options.held()
    options.log.info({ databaseId: id, decision }, 'watch')
    await act(options, database, fresh, decision)
  }
  return false
}

function observe(
  database: HostDatabase,
  container: (ListedContainer & Partial<ContainerState>) | null,
): DatabaseObservation {
  return {
    status: database.status,
    desired: database.desired_state,
    containerId: database.container_id,
    startedAt: database.started_at,
    exitAt: database.exit_at,
    crashes: database.restarts,
    restartAt: database.restart_at,
    container: container && {
      id: container.id,
      running: container.running,
      paused: container.status === 'paused',
      endedAt: container.finishedAt ?? null,
    },
  }
}

async function act(
  options: SettlementOptions,
  database: HostDatabase,
  container: ContainerState | null,
  decision: DatabaseVerdict,
): Promise<void> {
  const { db, engine, locks, boot, returns, now = Date.now } = options
  const { id } = database
  if (decision === 'resume' && container) await locks(id, () => engine.unpause(container.name))
  if (decision === 'record-start' && container) {
    const startedAt = container.startedAt ?? new Date()
    await recordDatabaseStarted(db, id, { containerId: container.id, startedAt, bootId: boot.id })
  }
  if (decision === 'forget-crashes') await forgetCrashes(db, id)
  if (decision === 'bring-back') await bringBack(db, database, container?.finishedAt ?? new Date(now()))
  if (decision === 'bring-down' && container)
    await locks(id, async () => {
      if (await staysStopped(db, id)) await engine.stop(container.name, engines[database.engine].stop.graceSeconds)
    })
  if (decision === 'record-exit') await recordExit(options, database, container)
  if (decision === 'restart') await startIf(db, database, trx => takeRestart(trx, id))
  if (decision === 'bring-back' || decision === 'restart') returns.seen(id)
}

/**
 * One commit: a recorded exit is not processed again, so the restart after it would be lost. Where no container has ended, as after an operation
 * that nothing works on any more, nothing has crashed: the next round brings it back.
 */
async function recordExit(
  options: SettlementOptions,
  database: HostDatabase,
  container: ContainerState | null,
): Promise<void> {
  const { db, now = Date.now } = options
  const exit = {
    code: container?.exitCode ?? null,
    oom: container?.oom ?? false,
    // What was not started keeps the end that is known.
    at: container?.finishedAt ?? database.exit_at ?? new Date(now()),
  }
  const ranMs = database.started_at ? exit.at.getTime() - database.started_at.getTime() : 0
  const plan = planRestart(database.restarts, ranMs, new Date(now()))
  const isPlanned = await transaction(db, async trx => {
    const isRecorded = await recordDatabaseExit(trx, database, exit)
    const hasCrashed = hasEndedSince(observe(database, container))
    return isRecorded && hasCrashed && (await recordRestartPlan(trx, database, plan, exit))
  })
  if (isPlanned) report(options, database, plan, exit)
}

/** Tells operators what follows, and lets the next round come when it is due. */
function report(
  { log, due }: SettlementOptions,
  { id: databaseId, engine, version }: HostDatabase,
  { crashes, restartAt }: RestartPlan,
  exit?: { code: number | null; oom: boolean },
): void {
  const facts = { databaseId, engine: `${engine} ${version}`, crashes, ...exit }
  if (restartAt) {
    due.set(databaseId, restartAt.getTime())
    log.warn({ ...facts, restartAt }, 'watch: the engine of a database has ended and will be started again')
  } else
    log.error(facts, 'watch: the engine of a database ends again and again, and stays down until somebody starts it')
}

/** Checked last, under the database's lock, so that a concurrent start is not undone. */
async function staysStopped(db: Db, id: string): Promise<boolean> {
  if (await operations.isBusy(db, id, 'database')) return false
  return (await loadDatabase(db, id))?.desired_state === 'stopped'
}
