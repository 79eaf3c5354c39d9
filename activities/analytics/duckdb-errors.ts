import { rankedPaths } from '../../policy/network/analytics-terms.ts'
import { bucketDate, expressions, type Statements, wholeSourceOf } from './duckdb-source.ts'
import type { ErrorsAnswer, Question } from './port.ts'

/** Requests that were answered with an error, of the server or, if requested, also of the client. */
export async function answerErrors(
  question: Question & { kind: 'errors' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<ErrorsAnswer> {
  const where = [`r.status between ${question.include4xx ? 400 : 500} and 599`]
  const columns = (count: string) => [
    `${expressions.bucket} as b`,
    'r.status as code',
    `${expressions.method} as method`,
    'r.path as path',
    `${count} as n`,
  ]
  const { sql, values } = wholeSourceOf(catalogs, question, columns, { where })
  await statements.rows(`create temp table failed as select * from ${sql}`, values)
  const count = (keys: string, rest = '') =>
    statements.rows(
      `select ${keys}, code, sum(n)::double from failed ${rest} group by ${keys}, code order by ${keys}, code`,
    )
  const byBucket = await count('b')
  const byMethod = await count('method')
  const top = `(select path, method from failed group by path, method order by sum(n) desc, path, method limit ${rankedPaths.errors})`
  const byPath = await count('path, method', `where (path, method) in ${top}`)

  const statuses = new Map<number, number>()
  for (const [, code, requests] of byBucket)
    statuses.set(Number(code), (statuses.get(Number(code)) ?? 0) + Number(requests))
  const sum = (from: number, to: number) =>
    [...statuses].reduce((total, [code, requests]) => total + (code >= from && code <= to ? requests : 0), 0)
  return {
    summary: { total: sum(0, 599), by_class: { '4xx': sum(400, 499), '5xx': sum(500, 599) } },
    by_status: [...statuses]
      .map(([status, requests]) => ({ status, requests, total: requests }))
      .sort((a, b) => b.total - a.total || a.status - b.status),
    timeseries: grouped(byBucket, 1).map(({ keys: [bucket], total, byStatus }) => ({
      date: bucketDate(bucket!),
      buckets: byStatus,
      total,
    })),
    top_paths: grouped(byPath, 2)
      .map(({ keys: [path, method], total, byStatus }) => ({
        path: String(path),
        method: String(method),
        total,
        by_status: byStatus,
      }))
      .sort((a, b) => b.total - a.total),
    by_method: grouped(byMethod, 1)
      .map(({ keys: [method], total, byStatus }) => ({ method: String(method), total, by_status: byStatus }))
      .sort((a, b) => b.total - a.total),
  }
}

type Row = Awaited<ReturnType<Statements['rows']>>[number]

/** Rows of keys, status and number, in the order of their keys, as one entry for each combination of keys. */
function grouped(rows: readonly Row[], keyCount: number) {
  const groups = new Map<string, { keys: Row; total: number; byStatus: Record<string, number> }>()
  for (const row of rows) {
    const keys = row.slice(0, keyCount)
    const name = JSON.stringify(keys.map(String))
    const group = groups.get(name) ?? { keys, total: 0, byStatus: {} }
    const requests = Number(row[keyCount + 1])
    group.total += requests
    group.byStatus[String(row[keyCount])] = requests
    groups.set(name, group)
  }
  return [...groups.values()]
}
