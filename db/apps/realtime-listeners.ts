import { leaseSeconds } from '../../policy/leases.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

/** The slot of one open stream, held by the process that serves it. */
export interface StreamLease {
  id: string
  userId: string
  appId: string
}

export interface LeaseLimits {
  perUser: number
  perApp: number
}

/** Takes a slot, unless account or application have reached their limit, over all processes. */
export async function takeStreamLease(
  db: Db,
  { id, userId, appId }: StreamLease,
  { perUser, perApp }: LeaseLimits,
): Promise<'taken' | 'user full' | 'app full'> {
  return transaction(db, async trx => {
    // Serializes transactions that count the same streams; applications are locked before accounts.
    await trx.raw(
      'select pg_advisory_xact_lock(hashtextextended(?, 0)), pg_advisory_xact_lock(hashtextextended(?, 0))',
      [`realtime/app/${appId}`, `realtime/user/${userId}`],
    )
    const { rows } = await trx.raw(
      `with open as (
         select (count(*) filter (where user_id = :userId))::integer as of_user, (count(*) filter (where app_id = :appId))::integer as of_app
           from realtime_listeners where (user_id = :userId or app_id = :appId) and expires_at > now()
       ), taken as (
         insert into realtime_listeners (id, user_id, app_id, expires_at)
         select :id, :userId, :appId, now() + make_interval(secs => :leaseSeconds) from open
          where of_user < :perUser and of_app < :perApp
       )
       select of_user, of_app from open`,
      { id, userId, appId, perUser, perApp, leaseSeconds: leaseSeconds.liveStream },
    )
    const [{ of_user, of_app }] = rows
    if (of_user >= perUser) return 'user full'
    return of_app >= perApp ? 'app full' : 'taken'
  })
}

/** Also inserts leases again that a crash of the database has lost: the table is not logged. */
export async function renewStreamLeases(db: Db, leases: readonly StreamLease[]): Promise<void> {
  await db.raw(
    `insert into realtime_listeners (id, user_id, app_id, expires_at)
     select id, user_id, app_id, now() + make_interval(secs => ?) from unnest(?::text[], ?::text[], ?::text[]) as l (id, user_id, app_id)
     on conflict (id) do update set expires_at = excluded.expires_at`,
    [leaseSeconds.liveStream, leases.map(l => l.id), leases.map(l => l.userId), leases.map(l => l.appId)],
  )
}

export async function endStreamLease(db: Db, id: string): Promise<void> {
  await db('realtime_listeners').where({ id }).delete()
}

/** Deletes the leases of processes that were killed. */
export function sweepStreamLeases(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'realtime_listeners', when: 'old.expires_at < now()' })
}
