import { alwaysRetainedDeployments } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { releaseSegments } from '../objects/segments.ts'
import { statement } from '../statement.ts'
import type { OldDeployments } from './old-deployments.ts'

const archivesAtOnce = 200

const ended = `o.state not in ('accepting', 'queued', 'running')`

/** True for a deployment that neither serves nor is among the newest of an existing application. */
const superseded = (deployment: string) => `not exists (
  select from apps a where a.id = ${deployment}.app_id
     and (a.release = ${deployment}.release or a.next_release - ${deployment}.release <= ${alwaysRetainedDeployments}))`

const deploymentsAtOnce = 200

/** Deletes deployments that are old enough, with their events and logs. Resolves to their number. */
export function sweepDeployments(db: Db, old: OldDeployments): Promise<number> {
  return old.look(db, deploymentsAtOnce, (among, values) =>
    deleteExpired(db, {
      table: 'deployments',
      when: `${among('old')} and ${superseded('old')}
             and exists (select from operations o where o.id = old.operation_id and ${ended})`,
      values,
      limit: deploymentsAtOnce,
    }),
  )
}

/** Deletes pieces of logs whose deployments are old enough. Resolves to their number. */
export function sweepDeploymentLogs(db: Db, old: OldDeployments): Promise<number> {
  return old.look(db, 1, (among, values) =>
    deleteExpired(db, {
      table: 'deployment_logs',
      when: `old.deployment_id in (
               select d.id from deployments d join operations o on o.id = d.operation_id
                where ${among('d')} and ${ended} and ${superseded('d')}
                  and exists (select from deployment_logs l where l.deployment_id = d.id)
                limit ${deploymentsAtOnce})`,
      values,
    }),
  )
}

/** Deletes operations that ended over `days` days ago and that no deployment or snapshot refers to. Resolves to their number. */
export function sweepOperations(db: Db, days: number): Promise<number> {
  return deleteExpired(db, {
    table: 'operations',
    when: `old.finished_at < now() - make_interval(days => :days) and old.state not in ('accepting', 'queued', 'running')
           and not exists (select from deployments d where d.operation_id = old.id)
           and not exists (select from snapshots s where s.operation_id = old.id)`,
    values: { days },
  })
}

/** Counts rows and not release numbers: uploads that were refused or undone have used up numbers. */
const pastNewest = statement<{ id: string; segment_id: string }>(
  'deploys.past-newest',
  `select d.id, d.segment_id from deployments d join operations o on o.id = d.operation_id
    where d.app_id = $1 and d.segment_id is not null and ${ended}
      and d.release < (select n.release from deployments n join operations m on m.id = n.operation_id
                        where n.app_id = $1 and m.state <> 'accepting'
                        order by n.release desc offset $2::integer - 1 limit 1)
    order by d.release limit ${2 * alwaysRetainedDeployments} for update of d skip locked`,
)

/**
 * Releases archives of an application, whose row the caller holds, that do not belong to its newest deployments, regardless of their
 * age: a series of uploads would fill the store long before the first of them is old. Unconfirmed deployments do not count, as they may
 * be undone. It looks at a few: every new deployment calls this.
 */
export async function releaseOlderArchives(trx: Db, appId: string): Promise<void> {
  await releaseRows(trx, await pastNewest(trx, [appId, alwaysRetainedDeployments]))
}

/**
 * Releases up to `archivesAtOnce` archives of an application, in the transaction of its deletion. `sweepDeletedArchives` releases the
 * rest, so that a deletion takes few statements for any number of archives.
 */
export async function releaseArchivesOfApp(trx: Db, appId: string): Promise<void> {
  const { rows } = await trx.raw(
    `select id, segment_id from deployments where app_id = ? and segment_id is not null limit ${archivesAtOnce} for update`,
    [appId],
  )
  await releaseRows(trx, rows)
}

/** Releases archives of deleted applications. Resolves to their number. */
export function sweepDeletedArchives(db: Db, archives: OldDeployments): Promise<number> {
  return transaction(db, trx =>
    archives.look(trx, archivesAtOnce, async (among, values) => {
      const { rows } = await trx.raw(
        `select d.id, d.segment_id from deployments d
          where d.segment_id is not null and ${among('d')} and not exists (select from apps a where a.id = d.app_id)
          order by d.created_at limit :archivesAtOnce for update of d skip locked`,
        { ...values, archivesAtOnce },
      )
      return releaseRows(trx, rows)
    }),
  )
}

async function releaseRows(trx: Db, rows: { id: string; segment_id: string }[]): Promise<number> {
  if (rows.length === 0) return 0
  const ids = rows.map(({ id }) => id)
  await releaseSegments(
    trx,
    rows.map(({ segment_id }) => segment_id),
  )
  await trx('deployments').whereIn('id', ids).update({ segment_id: null })
  return rows.length
}

/**
 * Releases archives of deployments that are old enough, except an application's newest, which an operator may deploy again. Resolves to
 * their number.
 */
export function sweepArchives(db: Db, old: OldDeployments): Promise<number> {
  return transaction(db, trx =>
    old.look(trx, archivesAtOnce, async (among, values) => {
      const { rows } = await trx.raw(
        `select d.id, d.segment_id from deployments d join operations o on o.id = d.operation_id
          where d.segment_id is not null and ${among('d')} and ${ended}
            and d.release < (select max(n.release) from deployments n where n.app_id = d.app_id)
          order by d.created_at limit :archivesAtOnce for update of d skip locked`,
        { ...values, archivesAtOnce },
      )
      return releaseRows(trx, rows)
    }),
  )
}
