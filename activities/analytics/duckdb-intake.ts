import { isUtf8 } from 'node:buffer'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { bucketMs, intake, methods, protocols, stands, textCaps, visits } from '../../policy/network/analytics-terms.ts'
import type { AddressReader } from './addresses.ts'
import { type ArrivedAgent, type DuckDbAgents, unreadAgent } from './duckdb-agents.ts'
import { type DuckDbDays, inTransaction, literal } from './duckdb-days.ts'
import {
  type AccountOf,
  boundRows,
  countStored,
  type DayShares,
  pastShare,
  type StoredShares,
  storedShares,
} from './duckdb-shares.ts'
import type { Progress, Slice } from './port.ts'

/** The keys of a line that are read. Older proxies do not write the last five: they are missing then. */
const columns = {
  app: 'VARCHAR',
  at: 'DOUBLE',
  host: 'VARCHAR',
  method: 'VARCHAR',
  path: 'VARCHAR',
  query: 'VARCHAR',
  status: 'USMALLINT',
  bytes: 'UBIGINT',
  client: 'VARCHAR',
  referer: 'VARCHAR',
  agent: 'VARCHAR',
  protocol: 'VARCHAR',
  content_type: 'VARCHAR',
  cache: 'VARCHAR',
  edge_ms: 'VARCHAR',
  origin_ms: 'VARCHAR',
  colo: 'VARCHAR',
  mitigated: 'VARCHAR',
}

/** The host of a web address without a user's name in front of it, and the same for addresses that have nothing but a host there, which takes a third of the time. */
const refererHost = String.raw`^https?://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^/?#:]+)`
const plainRefererHost = String.raw`^https?://([^/?#@:\[]*)(?:[/?#]|$)`

/** The first group of a pattern in a text; null where there is none. */
const matched = (text: string, pattern: string) => `nullif(regexp_extract(${text}, '${pattern}', 1), '')`

const list = (names: readonly string[]) => names.map(literal).join(', ')

/** A text is seldom too long: to count its bytes costs less than its characters. */
const capped = (text: string, max: number) => `if(strlen(${text}) > ${max}, left(${text}, ${max}), ${text})`

/** The lines of requests in a slice. A byte order mark before an agent would be lost on its way through this process, and with it the agent's number. */
const lines = (file: string) => `(
  select * replace (
      ${capped('host', textCaps.host)} as host, ${capped('method', 16)} as method, ${capped('path', textCaps.path)} as path,
      ${capped('content_type', textCaps.header)} as content_type,
      ${capped('query', textCaps.query)} as query, ${capped('referer', textCaps.referer)} as referer,
      if(starts_with(agent, chr(65279)), ltrim(${capped('agent', textCaps.agent)}, chr(65279)), coalesce(${capped('agent', textCaps.agent)}, '')) as agent,
      coalesce(client, '') as client)
  from read_json(${literal(file)}, format = 'newline_delimited', ignore_errors = true,
    maximum_object_size = ${2 * intake.maxLineBytes},
    columns = {${Object.entries(columns)
      .map(([name, type]) => `"${name}": '${type}'`)
      .join(', ')}})
  where app <> '' and "at" is not null and status is not null)`

/**
 * What a slice has of agents and addresses, each once, and how often; and the bytes of the texts of each application. A text that comes again in a
 * slice is stored once, nearly: it counts once. And what applications have stored of the day before. To read the slice for it and again for the rows
 * costs less than a temporary table of all its lines.
 */
const arrived = (file: string, catalog: string) => `
  with arrived as materialized (
    select case when grouping(agent) = 0 then 'agent' when grouping(client) = 0 then 'client' else 'text' end as kind,
      app, coalesce(agent, client, path, query, referer, content_type, method) as value, count(*) as n
    from ${lines(file)}
    group by grouping sets ((app, agent), (client), (app, path), (app, query), (app, referer), (app, content_type), (app, method)))
  select kind, app, value, n::double from arrived where kind <> 'text'
  union all
  select kind, app, null, coalesce(sum(strlen(value)), 0)::double from arrived where kind = 'text' group by kind, app
  union all
  ${storedShares(catalog)}`

const agentShape = { id: 'INTEGER', agent: 'VARCHAR', bot: 'VARCHAR' }
const addedShape = { ...agentShape, device: 'VARCHAR', os: 'VARCHAR', browser: 'VARCHAR' }
const addressShape = { client: 'VARCHAR', shown: 'VARCHAR', country: 'VARCHAR', city: 'VARCHAR', provider: 'VARCHAR' }

/** Applications of a slice that have stored their share of the day before; of `requests` it may be all. */
interface Past {
  textBytes: ReadonlySet<string>
  requests: ReadonlySet<string> | 'all'
}

const isOneOf = (apps: ReadonlySet<string> | 'all') =>
  apps === 'all' ? 'true' : apps.size > 0 ? `app in (${list([...apps])})` : 'false'

/**
 * The requests of a slice, but for those past the share of their application; past its share of texts it has none that it or its visitors make
 * up. They are counted as before.
 */
const stored = (file: string, catalog: string, past: Past) => `
  insert into ${catalog}.requests
  ${requestsOf(file, isOneOf(past.textBytes), `where not ${isOneOf(past.requests)}`)}`

/** Past its share of requests an application has numbers of them, of which there is a bounded number in a day. */
const summed = (file: string, catalog: string, past: Past) => `
  insert into ${catalog}.rest
  select app, seen // ${bucketMs} as bucket, status, sum(visit::integer), count(*), sum(bytes)
  from (${requestsOf(file, 'true', `where ${isOneOf(past.requests)}`)})
  group by app, bucket, status
  on conflict (app, bucket, status) do update
  set visits = visits + excluded.visits, requests = requests + excluded.requests, bytes = bytes + excluded.bytes`

/** Rows of the table of requests. */
const requestsOf = (file: string, isPast: string, where: string) => `
  select app, round("at" * 1000)::bigint as seen, host,
    if(is_past and method not in (${list(methods)}), '${stands.otherMethod}', method),
    if(is_past, '${stands.otherPath}', path), if(is_past, null, nullif(query, '')), status, coalesce(bytes, 0) as bytes,
    shown, country, city, provider, coalesce(id, ${unreadAgent}), if(is_past, null, nullif(referer, '')),
    if(is_past and referer_host is not null, '${stands.unknown}', referer_host),
    case when protocol in (${list(protocols)}) then protocol else '${stands.unknown}' end, if(is_past, '${stands.unknown}', media_type),
    coalesce(method = '${visits.method}' and status between ${visits.fromStatus} and ${visits.toStatus}
      and media_type = '${visits.contentType}' and bot is null and coalesce(id, ${unreadAgent}) <> ${unreadAgent}
      and (referer_host is null or referer_host <> lower(host)), false) as visit,
    nullif(lower(cache), ''), coalesce(try_cast(edge_ms as uinteger), try_cast(round(try_cast(edge_ms as double)) as uinteger)),
    coalesce(try_cast(nullif(origin_ms, '') as uinteger),
      try_cast(round(try_cast(${matched("nullif(origin_ms, '')", '([0-9.]+)[^0-9.]*$')} as double)) as uinteger)),
    nullif(colo, ''), coalesce(mitigated in ('1', 'true'), false)
  from (
    select *, ${isPast} as is_past,
      case when coalesce(referer, '') = '' then null
        else left(coalesce(${matched('lower(referer)', plainRefererHost)}, ${matched('lower(referer)', refererHost)}, '${stands.unknown}'), 255) end
        as referer_host,
      coalesce(nullif(left(lower(trim(split_part(content_type, ';', 1))), ${textCaps.contentType}), ''), '${stands.unknown}')
        as media_type
    from ${lines(file)} ${where})
  left join ${boundRows('agents', agentShape)} using (agent) left join ${boundRows('addresses', addressShape)} using (client)`

interface Readers {
  agents: DuckDbAgents
  addresses: AddressReader
  accountOf: AccountOf
}

/** Takes slices of access logs into the file of their day, each in one transaction with its progress. */
export class DuckDbIntake {
  readonly #days: DuckDbDays
  readonly #connection: DuckDBConnection
  readonly #readers: Readers
  readonly #shares: DayShares

  constructor(days: DuckDbDays, connection: DuckDBConnection, readers: Readers, shares: DayShares) {
    this.#days = days
    this.#connection = connection
    this.#readers = readers
    this.#shares = shares
  }

  async progressOf(day: string): Promise<Map<string, Progress>> {
    if (!this.#days.list().includes(day)) return new Map()
    const rows = (
      await this.#connection.runAndReadAll(`select file, head, "offset" from "${day}".progress`)
    ).getRowsJS()
    return new Map(rows.map(([file, head, offset]) => [String(file), { head: String(head), offset: Number(offset) }]))
  }

  /** `onlyCounts`: as if every application had stored its share of requests. */
  async take({ day, file, head, end, lines }: Slice, onlyCounts = false): Promise<number> {
    await this.#days.attach(day)
    const path = join(this.#days.scratch, 'slice.json')
    // The proxy passes on bytes that are no UTF-8, for which the engine would refuse the line.
    await writeFile(path, isUtf8(lines) ? lines : lines.toString('utf8'))
    const run = (sql: string, values?: Record<string, string | bigint>) => this.#connection.run(sql, values)
    const catalog = `"${day}"`
    try {
      const reader = await this.#connection.runAndReadAll(arrived(path, catalog))
      const { agents: arrivals, addresses, texts, requests, stored: before } = sorted(reader.getColumnsJS())
      const pastOf = (what: 'textBytes' | 'requests') =>
        pastShare(requests.keys(), before, what, this.#shares, this.#readers.accountOf)
      const past = { textBytes: pastOf('textBytes'), requests: onlyCounts ? ('all' as const) : pastOf('requests') }
      const isStored = ([app]: [string, number]) => past.requests !== 'all' && !past.requests.has(app)
      const counted = {
        requests: new Map([...requests].filter(isStored)),
        textBytes: new Map([...texts].filter(([app, bytes]) => isStored([app, bytes]) && !past.textBytes.has(app))),
      }
      const agents = await this.#readers.agents.read(day, arrivals)
      const count = await inTransaction(this.#connection, async () => {
        if (agents.added.length > 0)
          await run(`insert into ${catalog}.agents by name from ${boundRows('added', addedShape)}`, {
            added: JSON.stringify(agents.added),
          })
        const read = {
          agents: JSON.stringify(agents.rows),
          addresses: JSON.stringify(addresses.map(client => ({ client, ...this.#readers.addresses(client) }))),
        }
        const { rowsChanged } = await run(stored(path, catalog, past), read)
        if (counted.requests.size < requests.size) await run(summed(path, catalog, past), read)
        await countStored(this.#connection, catalog, counted, this.#readers.accountOf)
        const progress = { file, head, end: BigInt(end) }
        const update = await run(
          `update ${catalog}.progress set head = $head, "offset" = $end where file = $file`,
          progress,
        )
        if (update.rowsChanged === 0) await run(`insert into ${catalog}.progress values ($file, $head, $end)`, progress)
        return Number(rowsChanged)
      })
      agents.stored()
      return count
    } finally {
      await rm(path, { force: true })
    }
  }

  /** Forgets what belongs to a day that was removed. */
  forget(day: string): void {
    this.#readers.agents.forget(day)
  }

  close(): void {
    this.#connection.closeSync()
  }
}

/** What a slice has, and what is stored of its day; numbers by application. */
function sorted([kinds = [], apps = [], values = [], counts = []]: unknown[][]) {
  const agents: ArrivedAgent[] = []
  const addresses: string[] = []
  const [texts, requests] = [new Map<string, number>(), new Map<string, number>()]
  const stored: StoredShares = { textBytes: new Map(), requests: new Map(), accounts: new Map() }
  for (const [n, kind] of kinds.entries()) {
    const [app, count] = [String(apps[n]), Number(counts[n])]
    if (kind === 'client') addresses.push(String(values[n]))
    else if (kind === 'agent') {
      agents.push({ app, agent: String(values[n]), count })
      requests.set(app, (requests.get(app) ?? 0) + count)
    } else if (kind === 'text') texts.set(app, count)
    else {
      stored[kind as 'textBytes' | 'requests'].set(app, count)
      if (typeof values[n] === 'string') stored.accounts.set(app, values[n])
    }
  }
  return { agents, addresses, texts, requests, stored }
}
