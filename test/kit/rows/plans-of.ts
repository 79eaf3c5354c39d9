import pg from 'pg'
import type { Db } from '../../../db/database.ts'

interface Sent {
  text: string
  values: unknown[]
  /** A prepared statement: after some calls Postgres may use one plan for all values. */
  named: boolean
}

/** What the query builder sends to a server besides statements. */
const explainable = /^\s*(select|with|insert|update|delete)\b/i

const listening = new Set<Sent[]>()

// Before any connection is open: a pool keeps the function that it finds.
const { query } = pg.Client.prototype as { query: (...given: unknown[]) => unknown }
Object.assign(pg.Client.prototype, {
  query(this: unknown, ...given: unknown[]) {
    const { text, values = [], name } = given[0] as { text?: string; values?: unknown[]; name?: string }
    if (text && explainable.test(text))
      for (const sent of listening) sent.push({ text, values, named: name !== undefined })
    return query.apply(this, given)
  },
})

/** Every statement that all clients of this process send while `work` runs. Must be imported before they connect. */
export async function statementsOf(work: () => Promise<unknown>): Promise<Sent[]> {
  const sent: Sent[] = []
  listening.add(sent)
  try {
    await work()
  } finally {
    listening.delete(sent)
  }
  return sent
}

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Total Cost': number
  Plans?: PlanNode[]
}

/** How Postgres would carry a statement out. */
export interface StatementPlan {
  text: string
  /** Tables that are read from end to end. */
  scanned: string[]
  /** In the planner's unit: reading one page of 8 KB in a row. */
  cost: number
}

/** The plans of what was sent, with its values, and of prepared statements also the one that serves any values. */
export async function plansOf(client: pg.Client, sent: readonly Sent[]): Promise<StatementPlan[]> {
  const plans: StatementPlan[] = []
  for (const { text, values, named } of sent) {
    const { rows } = await client.query({ text: `explain (format json) ${text}`, values })
    plans.push(planOf(text, rows))
    if (named) plans.push(planOf(text, (await client.query(`explain (format json, generic_plan) ${text}`)).rows))
  }
  return plans
}

function planOf(text: string, rows: { 'QUERY PLAN': { Plan: PlanNode }[] }[]): StatementPlan {
  const root = rows[0]!['QUERY PLAN'][0]!.Plan
  const nodes: PlanNode[] = []
  const walk = (node: PlanNode) => {
    nodes.push(node)
    for (const child of node.Plans ?? []) walk(child)
  }
  walk(root)
  const scanned = nodes.filter(node => node['Node Type'] === 'Seq Scan').map(node => node['Relation Name'] ?? '')
  return { text, scanned, cost: root['Total Cost'] }
}

/**
 * Lets the planner think that each of these tables has so many times the rows that it has, until somebody analyzes it again: what it
 * knows of their columns is what it would know of the larger ones.
 */
export async function pretendLarger(db: Db, tables: readonly string[], times: number): Promise<void> {
  for (const table of tables) {
    await db.raw('alter table ?? set (autovacuum_enabled = off)', [table])
    await db.raw(`update pg_class set reltuples = reltuples * ?::real where oid = ?::regclass`, [times, table])
    await db.raw(
      `update pg_class set reltuples = reltuples * ?::real where oid in (select indexrelid from pg_index where indrelid = ?::regclass)`,
      [times, table],
    )
  }
}
