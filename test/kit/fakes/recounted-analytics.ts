import type { AddressReader } from '../../../activities/analytics/addresses.ts'
import { type AgentTraits, readAgent } from '../../../activities/analytics/agents.ts'
import type {
  Analytics,
  Answers,
  Intake,
  Percentiles,
  Progress,
  Question,
  Slice,
} from '../../../activities/analytics/port.ts'
import type { LoggedRequest } from '../analytics/log-lines.ts'

/** One request as breakdowns see it. */
type Seen = ReturnType<typeof seenOf>

const quarter = 15 * 60_000
const dateOf = (at: number) => new Date(Math.floor(at / quarter) * quarter).toISOString()
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))
const known = (text: string | undefined, among: string) => (text && among.split(' ').includes(text) ? text : null)

/** Keeps every line and counts them anew for each question, in plain loops: slow, and simple enough to be believed. */
export class RecountedAnalytics implements Analytics, Intake {
  readonly #requests: Seen[] = []
  readonly #progress = new Map<string, Map<string, Progress>>()
  readonly #addresses: AddressReader

  constructor(addresses: AddressReader) {
    this.#addresses = addresses
  }

  async progressOf(day: string) {
    return this.#progress.get(day) ?? new Map()
  }

  async take({ day, file, head, end, lines }: Slice): Promise<number> {
    const before = this.#requests.length
    for (const line of lines.toString('utf8').split('\n')) {
      const request = parsed(line)
      if (request?.app) this.#requests.push(seenOf(request, this.#addresses))
    }
    this.#progress.set(day, new Map(await this.progressOf(day)).set(file, { head, offset: end }))
    return this.#requests.length - before
  }

  async ask<Q extends Question>(question: Q): Promise<Answers[Q['kind']]> {
    const { appId, window } = question
    const inside = this.#requests.filter(({ app, at }) => app === appId && at >= window.from && at < window.to)
    const answer: { [K in Question['kind']]: () => Answers[K] } = {
      analytics: () => traffic(inside, question as Question & { kind: 'analytics' }),
      errors: () => errors(inside, (question as Question & { kind: 'errors' }).include4xx),
      logs: () => newest(inside),
      performance: () => performance(inside),
    }
    return answer[question.kind]() as Answers[Q['kind']]
  }
}

function parsed(line: string): LoggedRequest | null {
  try {
    return JSON.parse(line)
  } catch {
    return null // torn
  }
}

function refererHost(referer: string): string | null {
  if (referer === '') return null
  const [scheme, rest] = referer.toLowerCase().split('://')
  if (rest === undefined || (scheme !== 'http' && scheme !== 'https')) return 'Unknown'
  const authority = rest.split(/[/?#]/)[0]!.split('@').at(-1)!
  return (
    (authority.startsWith('[') ? authority.slice(0, authority.indexOf(']') + 1) : authority.split(':')[0]!) || 'Unknown'
  )
}

const agents = new Map<string, AgentTraits>()

function seenOf(request: LoggedRequest, addresses: AddressReader) {
  const agent = [...request.agent].slice(0, 300).join('')
  const traits = agents.get(agent) ?? readAgent(agent)
  agents.set(agent, traits)
  const { shown, country, city, provider } = addresses(request.client)
  const type = request.content_type.split(';')[0]!.trim().toLowerCase() || 'Unknown'
  const from = refererHost(request.referer)
  const isPage = request.method === 'GET' && request.status >= 200 && request.status < 400 && type === 'text/html'
  return {
    app: request.app,
    host: request.host,
    path: request.path,
    query: request.query,
    status: request.status,
    bytes: request.bytes,
    referer: request.referer,
    cache: request.cache,
    colo: request.colo,
    mitigated: request.mitigated,
    device: traits.device,
    os: traits.os,
    browser: traits.browser,
    bot: traits.bot,
    at: Math.round(request.at * 1000),
    agent,
    country,
    city,
    provider,
    ip: shown,
    date: dateOf(request.at * 1000),
    visit: isPage && traits.bot === null && from !== request.host,
    refererHost: from ?? 'Direct',
    method: known(request.method, 'GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH') ?? 'Other',
    sentMethod: request.method,
    protocol: known(request.protocol, 'HTTP/0.9 HTTP/1.0 HTTP/1.1 HTTP/2.0 HTTP/3.0') ?? 'Unknown',
    content_type: type,
    edge: request.edge_ms === undefined || request.edge_ms === '' ? null : Number(request.edge_ms),
    origin: /\d$/.test(String(request.origin_ms ?? ''))
      ? Number(
          String(request.origin_ms)
            .split(/[^\d]+/)
            .at(-1),
        )
      : null,
  }
}

const types: Record<string, (seen: Seen) => string | null> = {
  visits: () => 'all',
  countries: seen => seen.country,
  devices: seen => seen.device,
  os: seen => seen.os,
  browsers: seen => seen.browser,
  protocols: seen => seen.protocol,
  methods: seen => seen.method,
  paths: seen => seen.path,
  referers: seen => seen.refererHost,
  providers: seen => seen.provider,
  ips: seen => seen.ip,
  status_codes: seen => String(seen.status),
  bots: seen => seen.bot,
  content_types: seen => seen.content_type,
}
const totals: Record<string, number> = { ips: 100, status_codes: 1000, bots: 100, content_types: 100 }

const tests: Record<string, (seen: Seen, value: string) => boolean> = {
  country: (seen, value) => seen.country === value,
  ip: (seen, value) => seen.ip === value,
  path: (seen, value) => seen.path.startsWith(value),
  status: (seen, value) => String(seen.status) === value,
  os: (seen, value) => seen.os === value,
  browser: (seen, value) => seen.browser === value,
  protocol: (seen, value) => seen.protocol === value,
  referer: (seen, value) => seen.refererHost === value,
  provider: (seen, value) => seen.provider === value,
  content_type: (seen, value) => seen.content_type === value,
  bot: (seen, value) => seen.bot === value,
}

const group = <K, T>(list: readonly T[], key: (item: T) => K): Map<K, T[]> => {
  const groups = new Map<K, T[]>()
  for (const item of list) {
    const name = key(item)
    const present = groups.get(name)
    if (present) present.push(item)
    else groups.set(name, [item])
  }
  return groups
}

/** The most frequent first; of equally frequent ones by their bytes. */
const frequent = <T>(groups: Map<string, T[]>, count: number): [string, T[]][] =>
  [...groups].sort(([a, one], [b, other]) => other.length - one.length || byBytes(a, b)).slice(0, count)

function traffic(inside: readonly Seen[], { filters, window }: Question & { kind: 'analytics' }): Answers['analytics'] {
  const wanted = Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const matching = inside.filter(seen => wanted.every(([name, value]) => tests[name]!(seen, value)))
  const entry = (type: string, date: string, list: readonly Seen[]) => ({
    type,
    date,
    visits: list.filter(({ visit }) => visit).length,
    requests: list.length,
    bytes: list.reduce((sum, { bytes }) => sum + bytes, 0),
  })
  const breakdowns = Object.entries(types).map(([name, typeOf]) => {
    const groups = group(
      matching.filter(seen => typeOf(seen) !== null),
      seen => typeOf(seen)!,
    )
    if (totals[name])
      return [
        name,
        frequent(groups, totals[name]).map(([type, list]) => entry(type, new Date(window.from).toISOString(), list)),
      ]
    const entries = frequent(groups, 25).flatMap(([type, list]) =>
      [...group(list, ({ date }) => date)].map(([date, part]) => entry(type, date, part)),
    )
    return [name, entries.sort((a, b) => byBytes(a.date, b.date) || byBytes(a.type, b.type))]
  })
  return Object.fromEntries(breakdowns)
}

function errors(inside: readonly Seen[], include4xx: boolean): Answers['errors'] {
  const failed = inside.filter(({ status }) => status >= (include4xx ? 400 : 500) && status <= 599)
  const byStatus = (list: readonly Seen[]) =>
    Object.fromEntries(
      [...group(list, ({ status }) => status)].sort(([a], [b]) => a - b).map(([code, { length }]) => [code, length]),
    )
  const between = (from: number) => failed.filter(({ status }) => status >= from && status < from + 100).length
  return {
    summary: { total: failed.length, by_class: { '4xx': between(400), '5xx': between(500) } },
    by_status: [...group(failed, ({ status }) => status)]
      .map(([status, { length }]) => ({ status, requests: length, total: length }))
      .sort((a, b) => b.total - a.total || a.status - b.status),
    timeseries: [...group(failed, ({ date }) => date)]
      .sort(([a], [b]) => byBytes(a, b))
      .map(([date, list]) => ({ date, buckets: byStatus(list), total: list.length })),
    top_paths: frequent(
      group(failed, ({ path, method }) => `${path}\0${method}`),
      25,
    ).map(([, list]) => ({
      path: list[0]!.path,
      method: list[0]!.method,
      total: list.length,
      by_status: byStatus(list),
    })),
    by_method: frequent(
      group(failed, ({ method }) => method),
      100,
    ).map(([method, list]) => ({
      method,
      total: list.length,
      by_status: byStatus(list),
    })),
  }
}

function newest(inside: readonly Seen[]): Answers['logs'] {
  return [...inside]
    .sort((a, b) => b.at - a.at)
    .slice(0, 1000)
    .map(seen => ({
      timestamp: new Date(seen.at).toISOString(),
      ip: seen.ip === 'BERTH-PLATFORM' ? null : seen.ip,
      country: seen.country === 'XX' ? null : seen.country,
      location: seen.city,
      asn: seen.provider,
      agent: seen.agent || null,
      category: seen.bot,
      mitigated: seen.mitigated === '1',
      method: seen.sentMethod,
      host: seen.host,
      path: seen.path,
      query: seen.query || null,
      protocol: seen.protocol,
      referer: seen.referer || null,
      status: seen.status,
      contentType: seen.content_type === 'Unknown' ? null : seen.content_type,
      cache: seen.cache?.toLowerCase() || null,
    }))
}

function percentiles(values: readonly (number | null)[]): Percentiles {
  const sorted = values.filter(value => value !== null).sort((a, b) => a - b)
  const at = (percent: number) => sorted[Math.ceil((sorted.length * percent) / 100) - 1] ?? 0
  return { p50: at(50), p95: at(95), p99: at(99) }
}

function performance(inside: readonly Seen[]): Answers['performance'] {
  const sampled = inside.filter(({ edge }) => edge !== null)
  const edgeOf = (list: readonly Seen[]) => percentiles(list.map(({ edge }) => edge))
  const originOf = (list: readonly Seen[]) => percentiles(list.map(({ origin }) => origin))
  const places = (key: (seen: Seen) => string) =>
    frequent(group(sampled, key), 25).map(([type, list]) => {
      const { p50, p95 } = edgeOf(list)
      return { type, p50, p95, requests: list.length }
    })
  return {
    summary: { edge: edgeOf(sampled), origin: originOf(inside), requests: sampled.length },
    timeseries: [...group(sampled, ({ date }) => date)]
      .sort(([a], [b]) => byBytes(a, b))
      .map(([date, list]) => ({ date, requests: list.length, edge: edgeOf(list), origin: originOf(list) })),
    countries: places(({ country }) => country),
    colos: places(({ colo }) => colo || 'Unknown').map(({ type, ...rest }) => ({
      type,
      city: null,
      country: null,
      ...rest,
    })),
    slowest_paths: [...group(sampled, ({ path }) => path)]
      .filter(([, list]) => list.length >= 20)
      .map(([path, list]) => ({ path, p95: edgeOf(list).p95, p99: edgeOf(list).p99, requests: list.length }))
      .sort((a, b) => b.p95 - a.p95 || byBytes(a.path, b.path))
      .slice(0, 25),
  }
}
