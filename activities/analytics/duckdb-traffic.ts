import { type Breakdown, breakdownNames, breakdowns } from '../../policy/network/analytics-terms.ts'
import { rowColumns, summedSources } from './duckdb-rollups.ts'
import { bucketDate, expressions, type Source, type Statements, typeOf, wholeSourceOf } from './duckdb-source.ts'
import type { Question, TrafficAnswer, TrafficEntry } from './port.ts'

/** A visitor can make up any number of these, so they are counted by bucket only after the most frequent ones have been determined. */
const unbounded: readonly Breakdown[] = ['paths', 'referers']

const figures = 'sum(v)::double as visits, sum(n)::double as requests, sum(s)::double as bytes'
const matchingColumns = Object.values(typeOf)
  .filter(type => type !== null)
  .map(type => `${expressions[type]} as ${type}`)

/** All breakdowns. With filters, the matching rows are collected first, and each breakdown reads those only; without, sums are read where there are any. */
export async function answerTraffic(
  question: Question & { kind: 'analytics' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<TrafficAnswer> {
  const { filters } = question
  const isFiltered = Object.values(filters).some(value => value !== undefined)
  const source = await (isFiltered ? matchingSources : summedSources)(question, catalogs, statements)
  const answer: Partial<TrafficAnswer> = {}
  for (const name of breakdownNames) answer[name] = await breakdown(name, source(name), question, statements)
  return answer as TrafficAnswer
}

async function matchingSources(
  question: Question & { kind: 'analytics' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<(name: Breakdown) => Source> {
  const { filters } = question
  const { sql, values } = wholeSourceOf(catalogs, question, count => [...rowColumns(count), ...matchingColumns], {
    filters,
  })
  await statements.rows(`create temp table matching as select * from ${sql}`, values)
  const tests = (name: Breakdown) => (name === 'bots' ? 'where bot is not null' : '')
  return name => ({
    sql: `(select b, v, n, s, ${typeOf[name] ?? "'all'"} as t from matching ${tests(name)})`,
    values: {},
  })
}

async function breakdown(
  name: Breakdown,
  { sql, values }: Source,
  { window }: Question,
  statements: Statements,
): Promise<TrafficEntry[]> {
  const { timed, types } = breakdowns[name]
  const mostFrequent = `select t from (select t, sum(n) as requests from ${sql} group by t order by requests desc, t limit ${types})`
  if (!timed) {
    const start = new Date(window.from).toISOString()
    const rows = await statements.rows(
      `select t, ${figures} from ${sql} group by t order by requests desc, t limit ${types}`,
      values,
    )
    return rows.map(([type, ...rest]) => entry(type, start, rest))
  }
  const counted = `select b, t, ${figures} from ${sql}`
  const query = unbounded.includes(name)
    ? `${counted} where t in (${mostFrequent}) group by b, t order by b, t`
    : `with counted as (${counted} group by b, t),
         frequent as (select t from counted group by t order by sum(requests) desc, t limit ${types})
       select * from counted where t in (from frequent) order by b, t`
  const rows = await statements.rows(query, values)
  return rows.map(([bucket, type, ...rest]) => entry(type, bucketDate(bucket!), rest))
}

type Cells = readonly (string | number | boolean | null | undefined)[]

function entry(type: Cells[number], date: string, [visits, requests, bytes]: Cells): TrafficEntry {
  return { type: String(type), date, visits: Number(visits), requests: Number(requests), bytes: Number(bytes) }
}
