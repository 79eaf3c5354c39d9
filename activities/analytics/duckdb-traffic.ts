import { type Breakdown, breakdownNames, breakdowns } from '../../policy/network/analytics-terms.ts'
import { bucketDate, type Expression, expressions, type Source, type Statements, sourceOf } from './duckdb-source.ts'
import type { Question, TrafficAnswer, TrafficEntry } from './port.ts'

/** What the types of each breakdown are. */
const typeOf: Record<Exclude<Breakdown, 'visits'>, Expression> = {
  countries: 'country',
  devices: 'device',
  os: 'os',
  browsers: 'browser',
  protocols: 'protocol',
  methods: 'method',
  paths: 'path',
  referers: 'referer',
  providers: 'provider',
  ips: 'ip',
  status_codes: 'status',
  bots: 'bot',
  content_types: 'content_type',
}

/** A visitor can make up any number of these, so that they are counted by bucket only once the most frequent ones are known. */
const unbounded: readonly Breakdown[] = ['paths', 'referers']

/** `b`, `t`, `v` and `s` are bucket, type, visit and size. */
const figures = 'sum(v::integer)::double, count(*)::double, sum(s)::double'
const matchingColumns = [...new Set(Object.values(typeOf))].map(name => `${expressions[name]} as ${name}`)

/** All breakdowns. With filters, the matching rows are collected first: each breakdown then reads those only. */
export async function answerTraffic(
  question: Question & { kind: 'analytics' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<TrafficAnswer> {
  const { filters } = question
  const isFiltered = Object.values(filters).some(value => value !== undefined)
  const base = [`${expressions.bucket} as b`, 'r.visit as v', 'r.bytes as s']
  if (isFiltered) {
    const { sql, values } = sourceOf(catalogs, question, [...base, ...matchingColumns], { filters })
    await statements.rows(`create temp table matching as select * from ${sql}`, values)
  }
  const source = (name: Breakdown): Source => {
    const type = name === 'visits' ? null : typeOf[name]
    const where = name === 'bots' ? [`${expressions.bot} is not null`] : []
    if (!isFiltered)
      return sourceOf(catalogs, question, [...base, `${type ? expressions[type] : "'all'"} as t`], { where })
    const tests = name === 'bots' ? 'where bot is not null' : ''
    return { sql: `(select b, v, s, ${type ?? "'all'"} as t from matching ${tests})`, values: {} }
  }
  const answer: Partial<TrafficAnswer> = {}
  for (const name of breakdownNames) answer[name] = await breakdown(name, source(name), question, statements)
  return answer as TrafficAnswer
}

async function breakdown(
  name: Breakdown,
  { sql, values }: Source,
  { window }: Question,
  statements: Statements,
): Promise<TrafficEntry[]> {
  const { timed, types } = breakdowns[name]
  const mostFrequent = `select t from (select t, count(*) as n from ${sql} group by t order by n desc, t limit ${types})`
  if (!timed) {
    const start = new Date(window.from).toISOString()
    const rows = await statements.rows(
      `select t, ${figures} from ${sql} group by t order by count(*) desc, t limit ${types}`,
      values,
    )
    return rows.map(([type, ...rest]) => entry(type, start, rest))
  }
  const counted = `select b, t, sum(v::integer)::double as visits, count(*)::double as requests, sum(s)::double as bytes from ${sql}`
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
