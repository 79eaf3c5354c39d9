import pg from 'pg'
import { type Db, openDatabase } from '../../../db/database.ts'

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

/**
 * The plans of every statement that `work` sends to the database of `url`, with its values, and of prepared statements also the one that
 * serves any values; and those of statements inside functions.
 */
export async function plansOf(url: string, work: (db: Db) => Promise<unknown>): Promise<StatementPlan[]> {
  const db = openDatabase({ url: `${url}?options=${encodeURIComponent(explaining)}`, pool: 1 })
  const client: pg.Client = await db.client.acquireConnection()
  db.client.releaseConnection(client)
  const inFunctions: StatementPlan[] = []
  client.on('notice', ({ message = '' }) => {
    const json = /plan:\n(\{.*\})/s.exec(message)?.[1]
    if (json) inFunctions.push(planOf(JSON.parse(json)))
  })
  try {
    const sent = await statementsOf(() => work(db))
    const own = new Set(sent.map(({ text }) => text))
    const plans = inFunctions.filter(({ text }) => !own.has(text))
    await client.query('set auto_explain.log_min_duration = -1')
    for (const { text, values, named } of sent) {
      plans.push(await explained(client, text, { text: `explain (format json) ${text}`, values }))
      if (named) plans.push(await explained(client, text, { text: `explain (format json, generic_plan) ${text}` }))
    }
    return plans
  } finally {
    await db.destroy()
  }
}

/** Settings of a connection that reports the plan of each statement that it carries out, also of those inside functions. */
const explaining = [
  'session_preload_libraries=auto_explain',
  'auto_explain.log_min_duration=0',
  'auto_explain.log_nested_statements=on',
  'auto_explain.log_format=json',
  'client_min_messages=log',
]
  .map(setting => `-c ${setting}`)
  .join(' ')

async function explained(client: pg.Client, text: string, query: pg.QueryConfig): Promise<StatementPlan> {
  const { rows } = await client.query(query)
  return planOf({ 'Query Text': text, ...rows[0]['QUERY PLAN'][0] })
}

function planOf({ 'Query Text': text, Plan: root }: { 'Query Text': string; Plan: PlanNode }): StatementPlan {
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
