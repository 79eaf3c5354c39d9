import { rankedPaths, rankedPlaces } from '../../policy/network/analytics-terms.ts'
import { bucketDate, expressions, type Source, type Statements, sourceOf } from './duckdb-source.ts'
import type { Percentiles, PerformanceAnswer, Question } from './port.ts'

type Measure = 'edge_ms' | 'origin_ms'

interface Latencies extends Percentiles {
  key: string
  requests: number
}

/** Latencies until the first byte. Requests are counted by whole milliseconds, from which every percentile is exact (nearest rank). */
export async function answerPerformance(
  question: Question & { kind: 'performance' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<PerformanceAnswer> {
  const of = (key: string, measure: Measure): Source =>
    sourceOf(catalogs, question, [`${key} as k`, `r.${measure} as ms`], { where: [`r.${measure} is not null`] })
  const percentiles = (key: string, measure: Measure, rest = '') => latencies(statements, of(key, measure), rest)
  const frequent = `order by requests desc, k limit ${rankedPlaces}`

  const [edge] = await percentiles("'all'", 'edge_ms')
  const [origin] = await percentiles("'all'", 'origin_ms')
  const origins = new Map((await percentiles(expressions.bucket, 'origin_ms')).map(row => [row.key, row]))
  const buckets = await percentiles(expressions.bucket, 'edge_ms', 'order by k')
  const countries = await percentiles(expressions.country, 'edge_ms', frequent)
  const colos = await percentiles(expressions.colo, 'edge_ms', frequent)
  const paths = await slowestPaths(statements, of(expressions.path, 'edge_ms'))
  return {
    summary: { edge: percentilesOf(edge), origin: percentilesOf(origin), requests: edge?.requests ?? 0 },
    timeseries: buckets.map(({ key, requests, ...row }) => ({
      date: bucketDate(key),
      requests,
      edge: percentilesOf(row),
      origin: percentilesOf(origins.get(key)),
    })),
    countries: countries.map(({ key, p50, p95, requests }) => ({ type: key, p50, p95, requests })),
    colos: colos.map(({ key, p50, p95, requests }) => ({ type: key, city: null, country: null, p50, p95, requests })),
    slowest_paths: paths.map(({ key, p95, p99, requests }) => ({ path: key, p95, p99, requests })),
  }
}

const percentilesOf = (row: Percentiles | undefined): Percentiles => ({
  p50: row?.p50 ?? 0,
  p95: row?.p95 ?? 0,
  p99: row?.p99 ?? 0,
})

/** Each key with its percentiles, from numbers of requests by key and millisecond. */
const ranked = (source: string) => `
  with counted as (select k, ms, count(*) as n from ${source} group by k, ms),
    summed as (select k, ms, sum(n) over (partition by k order by ms) as upto, sum(n) over (partition by k) as total from counted)
  select k, total::double as requests, ${[50, 95, 99]
    .map(percent => `min(ms) filter (upto * 100 >= total * ${percent})::double as p${percent}`)
    .join(', ')}
  from summed group by k, total`

async function latencies(statements: Statements, { sql, values }: Source, rest: string): Promise<Latencies[]> {
  const rows = await statements.rows(`${ranked(sql)} ${rest}`, values)
  return rows.map(([key, requests, p50, p95, p99]) => ({
    key: String(key),
    requests: Number(requests),
    p50: Number(p50),
    p95: Number(p95),
    p99: Number(p99),
  }))
}

/** Paths with enough requests to be ranked, slowest first. */
function slowestPaths(statements: Statements, { sql, values }: Source): Promise<Latencies[]> {
  const frequent = `(select k from ${sql} group by k having count(*) >= ${rankedPaths.fromRequests})`
  const source = `(select * from ${sql} where k in ${frequent})`
  return latencies(statements, { sql: source, values }, `order by p95 desc, k limit ${rankedPaths.slowest}`)
}
