import type { Knex } from 'knex'
import { hourMs } from '../../lib/time.ts'
import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { automaticSnapshotRules, snapshotLooks } from '../../policy/rounds.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import { findMailOf, queueMail } from '../accounts/mails.ts'
import type { Db } from '../database.ts'
import type { TargetType } from '../operations/operation-kinds.ts'
import { targetTables } from '../operations/transient-states.ts'
import { hasSnapshots } from './automatic-snapshots.ts'

/** A round takes the accounts of the applications, or databases, that are due first, and all that is due of these, up to this number. */
const firstRows = 100
const maxRows = 5000

/** Max applications, or databases, that a mail names. */
const maxNamed = 20

/** An account is mailed once in this many hours. */
const onceInHours = 24

interface Unsaved {
  id: string
  name: string
  owner_id: string
  /** Whether it is to have snapshots, and those that were tried since the last good one fail. */
  failing: boolean
  days: number
}

/**
 * Warns owners of applications, or databases, whose snapshots have failed for days, once until there is a good one; resolves to the ids of
 * these. An account gets one mail a day for all of them: those that come later on that day wait for its end. Others are looked at again
 * later: those that have no snapshots, as their account has no plan, and those that none was tried of, as their host is silent, or as the
 * platform was off.
 */
export async function queueSnapshotWarnings(trx: Db, plans: Plans, type: TargetType): Promise<string[]> {
  const table = targetTables[type]
  const { rows }: { rows: Unsaved[] } = await trx.raw(
    `with accounts as (
       select owner_id, min(snapshot_warn_at) as since
         from (select owner_id, snapshot_warn_at from ${table} where snapshot_warn_at <= now() order by snapshot_warn_at limit :firstRows) f
        group by owner_id)
     select d.id, d.name, d.owner_id,
            d.provisioned_at is not null and d.lost_with is null and d.desired_state <> 'deleted' and ${hasSnapshots(type)}
              and d.snapshot_tried_at > coalesce(last.good, '-infinity')
              -- Not while one is being made that may succeed.
              and not exists (
                select 1 from snapshots s where s.target_type = '${type}' and s.target_id = d.id and s.state = 'making'
                   and s.created_at > now() - make_interval(mins => :tryMinutes))
              and exists (
                select 1 from hosts h where h.id = d.host_id and h.forgotten_at is null
                   and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds') as failing,
            greatest(:warnDays, floor(extract(epoch from now() - coalesce(last.good, d.provisioned_at)) / 86400))::integer as days
       from accounts a join ${table} d on d.owner_id = a.owner_id join users u on u.id = d.owner_id
       cross join lateral (
         select (select s.created_at from snapshots s
                  where s.target_type = '${type}' and s.target_id = d.id and s.state = 'good' order by s.created_at desc limit 1) as good
          offset 0) last -- so that it is read once
      where d.snapshot_warn_at <= now()
      -- The rows of an account together: the limit divides one at most.
      order by a.since, d.owner_id, d.snapshot_warn_at limit :maxRows for no key update of d skip locked`,
    { paid: paidPlans(plans), ...automaticSnapshotRules, firstRows, maxRows },
  )
  const lookAgain = (rows: readonly Unsaved[], at: Date | Knex.Raw | null) =>
    trx(table).whereIn('id', idsOf(rows)).update({ snapshot_warn_at: at })
  if (rows.length === 0) return []
  await lookAgain(
    rows.filter(row => !row.failing),
    trx.raw('now() + make_interval(secs => ?)', [snapshotLooks.withoutPlanSeconds]),
  )
  const warned: string[] = []
  const failing = rows.filter(row => row.failing)
  for (const userId of new Set(failing.map(row => row.owner_id))) {
    const unsaved = failing.filter(row => row.owner_id === userId)
    const waitsUntil = await mail(trx, type, userId, unsaved)
    await lookAgain(unsaved, waitsUntil)
    if (!waitsUntil) warned.push(...idsOf(unsaved))
  }
  return warned
}

const idsOf = (rows: readonly Unsaved[]): string[] => rows.map(({ id }) => id)

/** Mails an account about these; when it was mailed on this day already nothing, and resolves to the end of the day. */
async function mail(trx: Db, type: TargetType, userId: string, rows: readonly Unsaved[]): Promise<Date | null> {
  const [{ name, days }] = rows as [Unsaved]
  const named = rows.slice(0, maxNamed).map(row => `${row.name} (${row.days})`)
  const several = {
    unsaved: [...named, ...(rows.length > maxNamed ? ['…'] : [])].join(', '),
    unsavedCount: rows.length,
  }
  const once = `snapshots-failing/${type}/${userId}`
  const occasion = { userId, once, onceInHours }
  const queued = await (type === 'app'
    ? queueMail(trx, { ...occasion, template: 'app-snapshots-failing', fields: { app: name, days, ...several } })
    : queueMail(trx, {
        ...occasion,
        template: 'database-snapshots-failing',
        fields: { database: name, days, ...several },
      }))
  if (queued) return null
  const before = await findMailOf(trx, once)
  return new Date(before!.created_at.getTime() + onceInHours * hourMs + 1)
}

/** Records that an application, or database, has a good snapshot: its owner is warned when there is no other one for days. */
export async function postponeSnapshotWarning(trx: Db, type: TargetType, id: string): Promise<void> {
  await trx.raw(`update ${targetTables[type]} set snapshot_warn_at = now() + make_interval(days => ?) where id = ?`, [
    automaticSnapshotRules.warnDays,
    id,
  ])
}
