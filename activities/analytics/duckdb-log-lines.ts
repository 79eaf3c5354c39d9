import { logEntries, stands } from '../../policy/network/analytics-terms.ts'
import { type Statements, sourceOf } from './duckdb-source.ts'
import type { LogLine, Question } from './port.ts'

/** Columns in the order of `lineOf`. */
const columns = [
  'seen',
  'client',
  'country',
  'city',
  'provider',
  'mitigated',
  'method',
  'host',
  'path',
  'query',
  'protocol',
  'referer',
  'status',
  'content_type',
  'cache',
].map(name => `r.${name} as ${name}`)

/** The newest requests of the window. */
export async function answerLogs(
  question: Question & { kind: 'logs' },
  catalogs: readonly string[],
  statements: Statements,
): Promise<LogLine[]> {
  const { sql, values } = sourceOf(catalogs, question, [...columns, 'a.agent as agent', 'a.bot as bot'])
  const rows = await statements.rows(`select * from ${sql} order by seen desc limit ${logEntries}`, values)
  return rows.map(lineOf)
}

type Row = Awaited<ReturnType<Statements['rows']>>[number]

function lineOf([seen, client, country, city, provider, ...rest]: Row): LogLine {
  const [mitigated, method, host, path, query, protocol, referer, status, contentType, cache, agent, bot] = rest
  return {
    timestamp: new Date(Number(seen)).toISOString(),
    ip: client === stands.platform ? null : textOf(client),
    country: country === stands.noCountry ? null : textOf(country),
    location: textOf(city),
    asn: String(provider),
    agent: textOf(agent),
    category: textOf(bot),
    mitigated: mitigated === true,
    method: String(method),
    host: String(host),
    path: String(path),
    query: textOf(query),
    protocol: String(protocol),
    referer: textOf(referer),
    status: Number(status),
    contentType: contentType === stands.unknown ? null : textOf(contentType),
    cache: textOf(cache),
  }
}

const textOf = (cell: Row[number] | undefined): string | null =>
  cell === null || cell === undefined || cell === '' ? null : String(cell)
