import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { HostUnreachable } from '../../activities/containers/port.ts'
import { type Db, isUnavailable, openDatabase } from '../../db/database.ts'
import {
  acquireHostLease,
  findHostLease,
  type HostLeaseRow,
  type HostLeaseToken,
  isLeaseClosed,
  type LeaseHolder,
  leaseSecondsLeft,
  releaseHostLease,
  renewHostLease,
} from '../../db/hosts/host-leases.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { loop } from '../../lib/async/loop.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { hostLeaseSeconds, renewEveryMs, sureForMs } from '../../policy/hosts/host-lease.ts'

/** The right of this process to act as its host. */
export interface HostLease {
  /** Aborts once another process has taken the name. */
  lost: AbortSignal
  /** Rejects once the lease is lost; never resolves. */
  ended: Promise<never>
  /** Rejects with HostUnreachable when the lease is lost, or may be. Queries Postgres only if the lease was not renewed recently. */
  held(): Promise<void>
  /** Like `held`, but always queries Postgres. */
  confirm(): Promise<void>
  /** Releases the name. */
  release(): Promise<void>
}

export interface LeaseOptions {
  databaseUrl: string
  hostId: string
  /** Folder of this host's files. */
  folder: string
  bootId: string
  log: Logger
}

/**
 * Takes the lease of a host name and renews it every second, on a connection of its own, which a busy pool does not delay. Waits for a
 * lease that is no longer renewed to expire; rejects when another process renews it.
 */
export async function takeHostLease(options: LeaseOptions): Promise<HostLease> {
  const { databaseUrl, hostId, log } = options
  const db = openDatabase({ url: databaseUrl, pool: 1, applicationName: `berth-host-${hostId}-lease` })
  const lease: HostLeaseToken = { hostId, token: randomBytes(16).toString('hex') }
  try {
    await take(db, lease, await holderOf(options))
  } catch (error) {
    await db.destroy()
    throw error
  }
  return keep(db, lease, log)
}

/** A lease that lasts for longer was renewed a moment ago. To confirm it, reading is enough: each renewal waits for a sync of the disk. */
const freshSeconds = hostLeaseSeconds - (3 * renewEveryMs) / 1000

/** How long Postgres may take to answer while everything starts. */
const startTimeoutMs = 30_000

async function take(db: Db, lease: HostLeaseToken, me: LeaseHolder): Promise<void> {
  const since = Date.now()
  let former: HostLeaseRow | undefined
  for (let seen: HostLeaseRow | undefined; ; await sleep(renewEveryMs / 2)) {
    try {
      const last = await findHostLease(db, lease.hostId)
      if (last && last.token !== lease.token) former = last
      const isMine = last?.token === lease.token // the answer to an earlier try was lost
      if (isMine || (await acquireHostLease(db, lease, me, hostLeaseSeconds)))
        return former && endFormer(former.holder, me)
      const present = await findHostLease(db, lease.hostId)
      if (!present) continue
      if (isLeaseClosed(present)) throw new Error(forgotten(lease.hostId))
      if (isDead(present.holder, me) && (await acquireHostLease(db, lease, me, hostLeaseSeconds, present.token))) return
      // A lease that is no longer renewed does not change.
      if (seen && present.held_until !== seen.held_until) throw inUse(lease.hostId, present.holder)
      seen = present
    } catch (error) {
      if (!isUnavailable(error) || Date.now() - since > startTimeoutMs) throw error
    }
  }
}

/** Whether the holder is a process of this machine that has ended; for other machines this cannot be determined. */
function isDead(holder: LeaseHolder, me: LeaseHolder): boolean {
  return holder.machine === me.machine && startTicks(holder.pid) !== holder.startTicks
}

/**
 * Ends the process of this machine that held the name, if it still exists: one that stands still would go on where it was, between a check
 * of its lease and the effect. What such an effect reaches (the engine, sockets, files) is on this machine only.
 */
function endFormer({ machine, pid, startTicks: startedAt }: LeaseHolder, me: LeaseHolder): void {
  if (machine !== me.machine || pid === me.pid || startTicks(pid) !== startedAt) return
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile, or belongs to a user whom this process may not touch; then it ends itself when it looks at its lease.
  }
}

/** The message of a process of a forgotten host before it exits. It removes nothing: people must decide that. */
const forgotten = (hostId: string): string =>
  `The host ${hostId} was forgotten with \`berth hosts forget\`: its applications were deleted, or may run on another host. This process exits without touching any files or containers here. See "A host that is lost" in docs/installation.md.`

async function whyLost(db: Db, hostId: string): Promise<string> {
  const present = await findHostLease(db, hostId).catch(ignoreError('the lease is lost either way'))
  if (present && isLeaseClosed(present)) return forgotten(hostId)
  return `Another process has taken over host ${hostId}; this one does nothing more.`
}

function inUse(hostId: string, { hostname, pid }: LeaseHolder): Error {
  return new Error(
    `The host name ${hostId} is in use by process ${pid} on the machine ${hostname}. Stop that process first, or give this host another HOST_NAME.`,
  )
}

async function holderOf({ folder, bootId }: LeaseOptions): Promise<LeaseHolder> {
  const { dev, ino } = await stat(folder)
  const { pid } = process
  return { machine: `${bootId}/${dev}/${ino}`, pid, startTicks: startTicks(pid) ?? '', hostname: hostname() }
}

function keep(db: Db, lease: HostLeaseToken, log: Logger): HostLease {
  const lost = new AbortController()
  const ending = new AbortController()
  let renewedAt = moment()

  const answer = <T>(query: Promise<T>): Promise<T> =>
    query.catch(error => {
      throw new HostUnreachable(`Cannot determine whether this process still is host ${lease.hostId}.`, {
        cause: error,
      })
    })

  async function renew(): Promise<void> {
    lost.signal.throwIfAborted()
    const requestedAt = moment()
    const mine = await answer(renewHostLease(db, lease, hostLeaseSeconds))
    if (mine) renewedAt = requestedAt
    else if (!ending.signal.aborted) lost.abort(new HostUnreachable(await whyLost(db, lease.hostId)))
    lost.signal.throwIfAborted()
  }

  async function confirm(): Promise<void> {
    lost.signal.throwIfAborted()
    const seconds = (await answer(leaseSecondsLeft(db, lease))) ?? 0
    if (seconds < freshSeconds) await renew()
    lost.signal.throwIfAborted()
  }

  const renewing = loop(renew, {
    signal: AbortSignal.any([ending.signal, lost.signal]),
    everyMs: renewEveryMs,
    onError: error => log.warn({ err: error }, 'the lease of the host was not renewed'),
  })
  const ended = new Promise<never>((_, reject) =>
    lost.signal.addEventListener('abort', () => reject(lost.signal.reason), { once: true }),
  )
  ended.catch(ignoreError('reported to the caller that awaits it'))
  return {
    lost: lost.signal,
    ended,
    confirm,
    async held() {
      lost.signal.throwIfAborted()
      if (since(renewedAt) > sureForMs) await renew()
    },
    async release() {
      ending.abort()
      await renewing
      await releaseHostLease(db, lease).catch(ignoreError('the lease expires'))
      await db.destroy()
    },
  }
}

interface Moment {
  wall: number
  steady: number
}

const moment = (): Moment => ({ wall: Date.now(), steady: performance.now() })

/** Milliseconds by the clock that advanced further: one stops while a machine sleeps, the other may be set. */
const since = ({ wall, steady }: Moment): number => Math.max(Date.now() - wall, performance.now() - steady)

/** The part with all of its methods, or only these, refused once the lease is lost. */
export function leased<T extends object>(lease: Pick<HostLease, 'held'>, part: T, verbs?: readonly (keyof T)[]): T {
  return new Proxy(part, {
    get(target, name) {
      const verb: unknown = Reflect.get(target, name)
      if (typeof verb !== 'function' || (verbs && !verbs.includes(name as keyof T))) return verb
      return async (...args: unknown[]) => {
        await lease.held()
        return verb.apply(target, args)
      }
    },
  })
}
