import type { Db } from '../database.ts'
import { statement } from '../statement.ts'

/** The process that runs under a host name. */
export interface LeaseHolder {
  /** Identifies this boot of this machine with this data folder. */
  machine: string
  pid: number
  /** Start time of the process in clock ticks since boot: pids are reused. */
  startTicks: string
  /** Name of the machine, for people. */
  hostname: string
}

export interface HostLeaseRow {
  token: string
  holder: LeaseHolder
  /** When it expires, by the clock of Postgres; each renewal changes it. */
  held_until: string
}

export interface HostLeaseToken {
  hostId: string
  token: string
}

/** Takes a free or expired lease, or the one whose token is `over`, for `seconds`; false while another process holds it. */
export async function acquireHostLease(
  db: Db,
  { hostId, token }: HostLeaseToken,
  holder: LeaseHolder,
  seconds: number,
  over: string | null = null,
): Promise<boolean> {
  return (await take(db, [hostId, token, JSON.stringify(holder), seconds, over])).length === 1
}

const take = statement(
  'host-leases.take',
  `insert into host_leases (host_id, token, holder, held_until)
   values ($1, $2, $3::jsonb, clock_timestamp() + make_interval(secs => $4::int))
   on conflict (host_id) do update
      set token = excluded.token, holder = excluded.holder, held_until = excluded.held_until
    where host_leases.held_until < clock_timestamp() or host_leases.token = $5
   returning 1`,
)

/** Takes a free or expired lease forever, so that no process can use this name again; false while a process holds it. */
export async function closeHostLease(db: Db, hostId: string): Promise<boolean> {
  return (await close(db, [hostId, JSON.stringify({ machine: '', pid: 0, startTicks: '', hostname: '' })])).length === 1
}

const close = statement(
  'host-leases.close',
  `insert into host_leases (host_id, token, holder, held_until) values ($1, 'forgotten', $2::jsonb, 'infinity')
   on conflict (host_id) do update
      set token = excluded.token, holder = excluded.holder, held_until = excluded.held_until
    where host_leases.held_until < clock_timestamp() or host_leases.token = excluded.token
   returning 1`,
)

/** Whether `closeHostLease` has taken a lease. */
export const isLeaseClosed = ({ held_until }: Pick<HostLeaseRow, 'held_until'>): boolean => held_until === 'infinity'

/** Extends a lease by `seconds`, also an expired one that no other process took; false when another process has taken it. */
export async function renewHostLease(db: Db, { hostId, token }: HostLeaseToken, seconds: number): Promise<boolean> {
  return (await renew(db, [hostId, token, seconds])).length === 1
}

const renew = statement(
  'host-leases.renew',
  `update host_leases set held_until = clock_timestamp() + make_interval(secs => $3::int)
    where host_id = $1 and token = $2 returning 1`,
)

/** Seconds that a lease still lasts, negative once it has run out; undefined when another process has taken it. Only reads. */
export async function leaseSecondsLeft(db: Db, { hostId, token }: HostLeaseToken): Promise<number | undefined> {
  return (await left(db, [hostId, token]))[0]?.seconds
}

const left = statement<{ seconds: number }>(
  'host-leases.left',
  `select extract(epoch from held_until - clock_timestamp())::float8 as seconds
     from host_leases where host_id = $1 and token = $2`,
)

export async function findHostLease(db: Db, hostId: string): Promise<HostLeaseRow | undefined> {
  return (await find(db, [hostId]))[0]
}

const find = statement<HostLeaseRow>(
  'host-leases.find',
  `select token, holder, held_until::text from host_leases where host_id = $1`,
)

/** Releases the lease, unless another process has taken it. */
export async function releaseHostLease(db: Db, { hostId, token }: HostLeaseToken): Promise<void> {
  await db('host_leases').where({ host_id: hostId, token }).delete()
}
