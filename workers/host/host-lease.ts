import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { HostUnreachable } from '../../activities/containers/port.ts'
import { type Db, isUnavailable, openDatabase } from '../../db/database.ts'
import {
  findLease,
  type HostLeaseRow,
  isClosed,
  type Lease,
  type LeaseHolder,
  releaseLease,
  renewLease,
  takeLease,
} from '../../db/hosts/host-leases.ts'
import { loop } from '../../lib/async/loop.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { hostLeaseSeconds, renewEveryMs, sureForMs } from '../../policy/hosts/host-lease.ts'

/** The right of this process to act as its host. */
export interface HostLease {
  /** Aborts once another process has the name. */
  lost: AbortSignal
  /** Rejects once it is lost; never resolves. */
  ended: Promise<never>
  /** Rejects with HostUnreachable when the lease is lost, or cannot be told to be held. Asks Postgres only when it was not renewed lately. */
  held(): Promise<void>
  /** `held`, asked of Postgres now. */
  confirm(): Promise<void>
  /** Gives the name free. */
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
 * Takes the lease of a host name and renews it every second, on a connection of its own: a busy pool does not delay it. Waits for
 * one that nobody renews any more; rejects when another process does.
 */
export async function takeHostLease(options: LeaseOptions): Promise<HostLease> {
  const { databaseUrl, hostId, log } = options
  const db = openDatabase({ url: databaseUrl, pool: 1, applicationName: `berth-host-${hostId}-lease` })
  const lease: Lease = { hostId, token: randomBytes(16).toString('hex') }
  try {
    await take(db, lease, await holderOf(options))
  } catch (error) {
    await db.destroy()
    throw error
  }
  return keep(db, lease, log)
}

/** Postgres may be slow to answer while everything starts. */
const startPatienceMs = 30_000

async function take(db: Db, lease: Lease, me: LeaseHolder): Promise<void> {
  const since = Date.now()
  for (let seen: HostLeaseRow | undefined; ; await sleep(renewEveryMs / 2)) {
    try {
      if (await takeLease(db, lease, me, hostLeaseSeconds)) return
      const present = await findLease(db, lease.hostId)
      if (!present) continue
      if (present.token === lease.token) return // the answer to an earlier try was lost
      if (isClosed(present)) throw new Error(forgotten(lease.hostId))
      if (isDead(present.holder, me) && (await takeLease(db, lease, me, hostLeaseSeconds, present.token))) return
      // What nobody renews only gets older.
      if (seen && present.held_until !== seen.held_until) throw inUse(lease.hostId, present.holder)
      seen = present
    } catch (error) {
      if (!isUnavailable(error) || Date.now() - since > startPatienceMs) throw error
    }
  }
}

/** A process of this machine that is gone renews nothing any more; of other machines that cannot be told. */
function isDead(holder: LeaseHolder, me: LeaseHolder): boolean {
  return holder.machine === me.machine && startTicks(holder.pid) !== holder.startTicks
}

/** What a process of a forgotten host says before it ends. It removes nothing: that is for people to decide. */
const forgotten = (hostId: string): string =>
  `The host ${hostId} was forgotten with \`berth hosts forget\`: its applications are deleted, or may run on another host by now. This process serves nothing, and leaves all files and containers here as they are. See "A host that is gone for good" in docs/installation.md.`

async function whyLost(db: Db, hostId: string): Promise<string> {
  const present = await findLease(db, hostId).catch(() => undefined)
  if (present && isClosed(present)) return forgotten(hostId)
  return `Another process is host ${hostId} now; this one does nothing more.`
}

function inUse(hostId: string, { hostname, pid }: LeaseHolder): Error {
  return new Error(
    `The host name ${hostId} is in use by process ${pid} of the machine ${hostname}. End that one first, or give this host another HOST_NAME.`,
  )
}

async function holderOf({ folder, bootId }: LeaseOptions): Promise<LeaseHolder> {
  const { dev, ino } = await stat(folder)
  const { pid } = process
  return { machine: `${bootId}/${dev}/${ino}`, pid, startTicks: startTicks(pid) ?? '', hostname: hostname() }
}

function keep(db: Db, lease: Lease, log: Logger): HostLease {
  const lost = new AbortController()
  const ending = new AbortController()
  let renewedAt = moment()

  async function confirm(): Promise<void> {
    lost.signal.throwIfAborted()
    const asked = moment()
    const mine = await renewLease(db, lease, hostLeaseSeconds).catch(error => {
      throw new HostUnreachable(`Whether this process still is host ${lease.hostId} cannot be told.`, { cause: error })
    })
    if (mine) renewedAt = asked
    else if (!ending.signal.aborted) lost.abort(new HostUnreachable(await whyLost(db, lease.hostId)))
    lost.signal.throwIfAborted()
  }

  const renewing = loop(confirm, {
    signal: AbortSignal.any([ending.signal, lost.signal]),
    everyMs: renewEveryMs,
    onError: error => log.warn({ err: error }, 'the lease of the host was not renewed'),
  })
  const ended = new Promise<never>((_, reject) =>
    lost.signal.addEventListener('abort', () => reject(lost.signal.reason), { once: true }),
  )
  ended.catch(() => {}) // told to whoever awaits it
  return {
    lost: lost.signal,
    ended,
    confirm,
    async held() {
      lost.signal.throwIfAborted()
      if (since(renewedAt) > sureForMs) await confirm()
    },
    async release() {
      ending.abort()
      await renewing
      await releaseLease(db, lease).catch(() => {})
      await db.destroy()
    },
  }
}

interface Moment {
  wall: number
  steady: number
}

const moment = (): Moment => ({ wall: Date.now(), steady: performance.now() })

/** Milliseconds by the clock that went further: one stands still while a machine sleeps, the other may be set. */
const since = ({ wall, steady }: Moment): number => Math.max(Date.now() - wall, performance.now() - steady)

/** The part with these verbs, or all of them, refused once the lease is lost. */
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
