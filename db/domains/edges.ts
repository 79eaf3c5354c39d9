import { edgeRules } from '../../policy/domains/edges.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

/** What a proxy has once its keeper has applied everything that this snapshot of Postgres shows. Opaque. */
export type EdgeSnapshot = string

/** To be read before the rows that a keeper applies. */
export async function edgeSnapshot(db: Db): Promise<EdgeSnapshot> {
  const { rows } = await db.raw('select pg_current_snapshot()::text as snapshot')
  return rows[0].snapshot
}

/**
 * Records that a proxy, which its operator calls `name`, has applied everything up to a snapshot, but what it has refused of some host names. Two keepers of one proxy may do
 * so in any order.
 */
export async function recordEdge(
  db: Db,
  id: string,
  snapshot: EdgeSnapshot,
  { refused = [], name = null }: { refused?: readonly string[]; name?: string | null } = {},
): Promise<void> {
  await db.raw(
    `insert into edges (id, name, applied, refused) values (:id, :name, :snapshot::pg_snapshot, :refused::text[])
     on conflict (id) do update set seen_at = now(), name = excluded.name, refused = excluded.refused, applied = case
       when edges.applied is null or pg_snapshot_xmax(edges.applied) <= pg_snapshot_xmax(excluded.applied)
         or pg_snapshot_xmax(edges.applied) > pg_snapshot_xmax(pg_current_snapshot())  -- of another server, whose backup was restored
       then excluded.applied else edges.applied end`,
    { id, name, snapshot, refused: [...new Set(refused)] },
  )
}

/** The number of this transaction, with which others find out whether a proxy has applied it. */
export async function transactionNumber(trx: Db): Promise<string> {
  const { rows } = await trx.raw('select pg_current_xact_id()::text as number')
  return rows[0].number
}

/** The live proxies that have not applied a committed transaction yet, or have refused something of `host`. One that was cut off is not waited for. */
export async function edgesBehind(db: Db, transaction: string, host: string | null = null): Promise<string[]> {
  const { rows } = await db.raw(
    `select id from edges
      where seen_at > now() - make_interval(secs => :seconds)
        and (applied is null or not pg_visible_in_snapshot(:transaction::text::xid8, applied) or :host::text = any(refused))`,
    { transaction, host, seconds: edgeRules.liveSeconds },
  )
  return rows.map(({ id }: { id: string }) => id)
}

/** Names that several live proxies have. */
export async function listSharedEdgeNames(db: Db): Promise<string[]> {
  const { rows } = await db.raw(
    `select name from edges where seen_at > now() - make_interval(secs => ?) and name is not null
      group by name having count(*) > 1 order by name`,
    [edgeRules.liveSeconds],
  )
  return rows.map(({ name }: { name: string }) => name)
}

/** Whether any proxy has been seen lately. */
export async function isAnyEdgeLive(db: Db): Promise<boolean> {
  const { rows } = await db.raw(
    'select exists (select 1 from edges where seen_at > now() - make_interval(secs => ?)) as live',
    [edgeRules.liveSeconds],
  )
  return rows[0].live
}

/** Wakes the keepers of all proxies. */
export async function wakeEdges(trx: Db): Promise<void> {
  await trx.raw(`select pg_notify('edges', '')`)
}

/** Forgets proxies that were not seen for a day; resolves to their number. */
export function sweepEdges(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'edges', when: `old.seen_at < now() - interval '1 day'` })
}
