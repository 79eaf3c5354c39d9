import type { DuckDBConnection } from '@duckdb/node-api'
import { Backoff } from '../../lib/async/backoff.ts'
import { type Breakdown, breakdownNames, bucketMs, type rollups } from '../../policy/network/analytics-terms.ts'
import { type DuckDbDays, inTransaction, literal } from './duckdb-days.ts'
import { countedInShares } from './duckdb-shares.ts'
import { each, expressions, type Source, type Statements, sourceOf, typeOf } from './duckdb-source.ts'
import type { Question } from './port.ts'

/** Rows of a day from one number to before another: rows are never removed, so that they retain their numbers. */
interface Run {
  first: number
  after: number
}

const inside = ({ first, after }: Run) => `(r.rowid >= ${first} and r.rowid < ${after})`
const insideOne = (runs: readonly Run[]) => `(${runs.map(inside).join(' or ')})`

const typed = breakdownNames.filter(name => name !== 'visits')
const ofBreakdown = (value: (name: Breakdown) => string, ofVisits: string) =>
  `case ${typed.map(name => `when grouping(${name}) = 0 then ${value(name)}`).join(' ')} else ${ofVisits} end`

/** The sums of a run, of each application that has enough rows in it. */
const counted = (catalog: string, run: Run, appRows: number) => `
  create or replace temp table counted as
  select app, ${ofBreakdown(literal, "'visits'")} as breakdown, b as bucket, ${ofBreakdown(name => name, "'all'")} as type,
    sum(visit::integer) as visits, count(*) as requests, sum(bytes) as bytes
  from (
    select r.app, ${expressions.bucket} as b, r.visit, r.bytes, ${typed.map(name => `${expressions[typeOf[name]!]} as ${name}`).join(', ')}
    from ${catalog}.requests r left join ${catalog}.agents a on a.id = r.agent
    where ${inside(run)} and r.app in (
      select r.app from ${catalog}.requests r where ${inside(run)} group by r.app having count(*) >= ${appRows}))
  group by grouping sets ((app, b), ${typed.map(name => `(app, b, ${name})`).join(', ')})`

/** Where most requests have a type of their own, as in a flood of made-up paths, sums would be as many as rows. */
const rolled = ({ first, after }: Run, rowsPerSum: number) => `
  select app, breakdown, ${first} as first, ${after} as after from counted
  group by app, breakdown having count(*) * ${rowsPerSum} <= sum(requests)`

/** What is stored once more counts in the application's share of texts. */
const shares = (catalog: string, { first }: Run) =>
  countedInShares(
    catalog,
    `(select app, sum(strlen(type)) as bytes from (
       select distinct app, type from ${catalog}.sums
       where first = ${first} and breakdown in ('paths', 'referers') and type is not null)
     group by app)`,
  )

/** Delays between the tries of a day that cannot be summed. */
const retries = { firstSeconds: 2, maxSeconds: 60 }

/** Sums requests by application, breakdown, bucket and type, one run of rows after the other. */
export class DuckDbRollups {
  readonly #days: DuckDbDays
  readonly #connection: DuckDBConnection
  readonly #sizes: Readonly<Record<keyof typeof rollups, number>>
  /** The rows of each day that are not summed yet, once they were looked up. */
  readonly #rest = new Map<string, Run>()
  /** A day that fails keeps no other from being summed, and is tried again less and less often. */
  readonly #failing: Backoff

  constructor(
    days: DuckDbDays,
    connection: DuckDBConnection,
    sizes: Readonly<Record<keyof typeof rollups, number>>,
    now?: () => number,
  ) {
    this.#days = days
    this.#connection = connection
    this.#sizes = sizes
    this.#failing = new Backoff({ ...retries, now })
  }

  /** Sums one run of the oldest day that has one, in one transaction. Resolves to whether there was any. */
  async next(): Promise<boolean> {
    const days = this.#days.list()
    this.#failing.forgetOthers(days)
    for (const day of days) {
      if (this.#failing.waits(day)) continue
      const enough = day === days.at(-1) ? this.#sizes.rows : this.#sizes.restRows
      const earlier = this.#rest.get(day)
      if (earlier && earlier.after - earlier.first < enough) continue
      this.#failing.seen(day) // unless it succeeds
      const rest = earlier ?? (await this.#restOf(`"${day}"`))
      this.#rest.set(day, rest)
      const run = { first: rest.first, after: Math.min(rest.after, rest.first + this.#sizes.rows) }
      const hasRun = run.after - run.first >= enough
      if (hasRun) {
        this.#rest.delete(day) // whether a sum that fails was stored is the engine's knowledge
        await this.#sum(`"${day}"`, run)
        this.#rest.set(day, { first: run.after, after: rest.after })
      }
      this.#failing.forget(day)
      if (hasRun) return true
    }
    return false
  }

  /** A day has this many more rows. */
  added(day: string, rows: number): void {
    const rest = this.#rest.get(day)
    if (rest) this.#rest.set(day, { first: rest.first, after: rest.after + rows })
  }

  /** Forgets what is known of a day: it was removed, or has changed in an unknown way. */
  forget(day: string): void {
    this.#rest.delete(day)
  }

  async #restOf(catalog: string): Promise<Run> {
    const number = async (sql: string) => Number((await this.#connection.runAndReadAll(sql)).getRowsJS()[0]![0])
    const first = await number(`select coalesce(max(after), 0) from ${catalog}.rollups`)
    const after = await number(
      `select coalesce(max(rowid) + 1, ${first}) from ${catalog}.requests where rowid >= ${first}`,
    )
    return { first, after }
  }

  async #sum(catalog: string, run: Run): Promise<void> {
    const { appRows, rowsPerSum } = this.#sizes
    const go = (sql: string) => this.#connection.run(sql)
    await go(counted(catalog, run, appRows))
    await inTransaction(this.#connection, async () => {
      await go(`insert into ${catalog}.rolled by name ${rolled(run, rowsPerSum)}`)
      // One after the other the same texts take little space.
      await go(`insert into ${catalog}.sums by name
        select ${run.first} as first, c.* from counted c
        semi join (from ${catalog}.rolled where first = ${run.first}) using (app, breakdown)
        where breakdown <> 'bots' or type is not null order by app, breakdown, type, bucket`)
      await go(shares(catalog, run))
      await go(`insert into ${catalog}.rollups values (${run.first}, ${run.after})`)
    })
  }
}

/**
 * Returns the source of each breakdown for a query without filters, with the columns `b`, `t`, `v`, `n` and `s`. Runs that were summed when
 * this was called come from the sums; everything else, and the partial first and last bucket, comes from rows. So nothing is missing or
 * counted twice.
 */
export async function summedSources(
  question: Pick<Question, 'appId' | 'window'>,
  catalogs: readonly string[],
  statements: Statements,
): Promise<(name: Breakdown) => Source> {
  const runsOf = new Map<string, Run[]>()
  const tables = catalogs.map(name => `select ${literal(name)} as name, * from ${name}.rolled where app = $app`)
  for (const [catalog, breakdown, first, after] of await statements.rows(
    `select name, breakdown, first, after from (${tables.join(' union all ')}) order by first`,
    { app: question.appId },
  ))
    addRun(runsOf, `${catalog}/${breakdown}`, { first: Number(first), after: Number(after) })

  const [from, to] = [Math.floor(question.window.from), Math.floor(question.window.to)]
  const buckets = { from: Math.ceil(from / bucketMs), to: Math.floor(to / bucketMs) }
  const edges = [
    { from, to: buckets.from * bucketMs },
    { from: buckets.to * bucketMs, to },
  ].filter(edge => edge.from < edge.to)

  function partsOf(catalog: string, name: Breakdown): string[] {
    const type = typeOf[name]
    const source = (ofRest: boolean, ...where: string[]) =>
      sourceOf(
        [catalog],
        question,
        [...rowColumns(ofRest ? each.rest : each.one), `${type ? expressions[type] : "'all'"} as t`],
        { where: [...where, ...(name === 'bots' ? [`${expressions.bot} is not null`] : [])], ofRest },
      ).sql
    const rows = (...where: string[]) => source(false, ...where)
    const runs = runsOf.get(`${catalog}/${name}`)
    if (!runs || buckets.from >= buckets.to)
      return [rows(), source(true)].map(sql => `select b, t, v, n, s from ${sql}`)
    const { after } = runs.at(-1)!
    const between = gaps(runs)
    return [
      `select bucket as b, type as t, visits as v, requests as n, bytes as s from ${catalog}.sums
       where app = $app and breakdown = ${literal(name)} and first < ${after} and bucket >= ${buckets.from} and bucket < ${buckets.to}`,
      ...[
        source(true),
        rows(`r.rowid >= ${after}`),
        ...(between.length > 0 ? [rows(insideOne(between))] : []),
        ...edges.map(edge => rows(`r.seen >= ${edge.from}`, `r.seen < ${edge.to}`, insideOne(runs))),
      ].map(sql => `select b, t, v, n, s from ${sql}`),
    ]
  }

  const { values } = sourceOf(catalogs, question, rowColumns(each.one))
  return name => ({ sql: `(${catalogs.flatMap(catalog => partsOf(catalog, name)).join(' union all ')})`, values })
}

/** What every breakdown counts of a row: `b`, `v`, `n` and `s` are bucket, visits, requests and size. */
export const rowColumns = (count: string) => [
  `${expressions.bucket} as b`,
  'r.visit::integer as v',
  `${count} as n`,
  'r.bytes as s',
]

function addRun(runsOf: Map<string, Run[]>, key: string, run: Run): void {
  const runs = runsOf.get(key) ?? []
  runsOf.set(key, runs)
  const last = runs.at(-1)
  if (last?.after === run.first) last.after = run.after
  else runs.push(run)
}

/** What is before each run, and after the one before it. */
const gaps = (runs: readonly Run[]): Run[] =>
  runs
    .map(({ first }, n) => ({ first: runs[n - 1]?.after ?? 0, after: first }))
    .filter(({ first, after }) => first < after)
