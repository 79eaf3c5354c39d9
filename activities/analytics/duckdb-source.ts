import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { type Breakdown, bucketMs, methods, stands } from '../../policy/network/analytics-terms.ts'
import { type FilterName, type Filters, filterNames } from '../../policy/network/filters.ts'
import { unreadAgent } from './duckdb-agents.ts'
import { literal } from './duckdb-days.ts'
import type { Question } from './port.ts'

export type Values = Record<string, DuckDBValue>

type Cell = string | number | boolean | null

/** Rows that one question is about, in SQL, and the values that the SQL refers to. */
export interface Source {
  sql: string
  values: Values
}

/** SQL of what breakdowns and lists are made of. Sums of past days (`duckdb-rollups.ts`) retain the types of the version that made them. */
export const expressions = {
  bucket: `r.seen // ${bucketMs}`,
  country: 'r.country',
  device: `coalesce(a.device, '${stands.unknown}')`,
  os: `coalesce(a.os, '${stands.unknown}')`,
  browser: `coalesce(a.browser, '${stands.unknown}')`,
  protocol: 'r.protocol',
  method: `case when r.method in (${methods.map(literal).join(', ')}) then r.method else '${stands.otherMethod}' end`,
  path: 'r.path',
  referer: `coalesce(r.referer_host, '${stands.noReferer}')`,
  provider: 'r.provider',
  ip: 'r.client',
  status: 'r.status::varchar',
  bot: 'a.bot',
  content_type: 'r.content_type',
  colo: `coalesce(r.colo, '${stands.unknown}')`,
} as const

export type Expression = keyof typeof expressions

/** What the types of each breakdown are; null: there is one, `all`. */
export const typeOf: Record<Breakdown, Expression | null> = {
  visits: null,
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

const conditions: Record<FilterName, string> = {
  country: `${expressions.country} = $country`,
  ip: `${expressions.ip} = $ip`,
  path: 'starts_with(r.path, $path)',
  status: 'r.status = $status::usmallint',
  os: `${expressions.os} = $os`,
  browser: `${expressions.browser} = $browser`,
  protocol: `${expressions.protocol} = $protocol`,
  referer: `${expressions.referer} = $referer`,
  provider: `${expressions.provider} = $provider`,
  content_type: `${expressions.content_type} = $content_type`,
  bot: `${expressions.bot} = $bot`,
}

interface SourceTerms {
  filters?: Filters
  where?: readonly string[]
  /** What `restOf` reads, instead of each request. */
  ofRest?: boolean
}

/**
 * The requests of a question in these catalogs, with these columns (`as` included). Agents are joined where a column or filter needs them. Everything that comes from
 * outside is a bound value.
 */
export function sourceOf(
  catalogs: readonly string[],
  { appId, window }: Pick<Question, 'appId' | 'window'>,
  columns: readonly string[],
  { filters = {}, where = [], ofRest = false }: SourceTerms = {},
): Source {
  const present = filterNames.flatMap((name): [FilterName, string][] => {
    const value = filters[name]
    return value === undefined ? [] : [[name, value]]
  })
  const tests = [
    'r.app = $app',
    'r.seen >= $from',
    'r.seen < $to',
    ...present.map(([name]) => conditions[name]),
    ...where,
  ].join(' and ')
  const joins = /\ba\./.test(`${columns.join()} ${tests}`)
  const parts = catalogs.map(
    catalog =>
      `select ${columns.join(', ')} from ${ofRest ? restOf(catalog) : `${catalog}.requests`} r${joins ? ` left join ${catalog}.agents a on a.id = r.agent` : ''} where ${tests}`,
  )
  const values = {
    app: appId,
    from: BigInt(Math.floor(window.from)),
    to: BigInt(Math.floor(window.to)),
    ...Object.fromEntries(present),
  }
  return { sql: `(${parts.join(' union all ')})`, values }
}

/** Requests past the share of their application, with the columns of requests; `visit` and `requests` are numbers. */
const restOf = (catalog: string) => `(
  select app, bucket * ${bucketMs} as seen, status, visits as visit, requests, bytes, '${stands.otherMethod}' as method, '${stands.otherPath}' as path,
    '${stands.unknown}' as client, '${stands.noCountry}' as country, '${stands.unknown}' as provider, ${unreadAgent} as agent,
    '${stands.unknown}' as referer_host, '${stands.unknown}' as protocol, '${stands.unknown}' as content_type
  from ${catalog}.rest)`

/**
 * The requests of a question as `sourceOf` gives them, and in the same columns those past the share of their application; `columnsOf` gets the
 * number of requests that a row stands for.
 */
export function wholeSourceOf(
  catalogs: readonly string[],
  question: Pick<Question, 'appId' | 'window'>,
  columnsOf: (count: string) => readonly string[],
  terms: Omit<SourceTerms, 'ofRest'> = {},
): Source {
  const { sql, values } = sourceOf(catalogs, question, columnsOf(each.one), terms)
  const rest = sourceOf(catalogs, question, columnsOf(each.rest), { ...terms, ofRest: true })
  return { sql: `(${sql} union all ${rest.sql})`, values }
}

/** How many requests a row stands for. */
export const each = { one: '1', rest: 'r.requests' } as const

/** Runs statements of one question; throws the signal's reason once it aborts. */
export class Statements {
  readonly #connection: DuckDBConnection
  readonly #signal: AbortSignal

  constructor(connection: DuckDBConnection, signal: AbortSignal) {
    this.#connection = connection
    this.#signal = signal
  }

  async rows(sql: string, values: Values = {}): Promise<Cell[][]> {
    this.#signal.throwIfAborted()
    return (await this.#connection.runAndReadAll(sql, values)).getRowsJS() as Cell[][]
  }
}

/** ISO text of the start of a bucket, by its number. */
export const bucketDate = (bucket: Cell): string => new Date(Number(bucket) * bucketMs).toISOString()
