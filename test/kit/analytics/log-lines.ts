/** What the proxy writes about a request; the last five are missing in lines of older proxies. */
export interface LoggedRequest {
  app: string
  at: number
  host: string
  method: string
  path: string
  query: string
  status: number
  bytes: number
  client: string
  referer: string
  agent: string
  protocol: string
  content_type: string
  cache?: string
  edge_ms?: string | number
  origin_ms?: string | number
  colo?: string
  mitigated?: string
}

export const appA = 'a'.repeat(24)
export const appB = 'b'.repeat(24)

/** A request of application A, with what a test changes. `at` is in Unix milliseconds. */
export function logged({ at, ...changes }: Partial<LoggedRequest> & { at: number }): LoggedRequest {
  return {
    app: appA,
    at: at / 1000,
    host: 'a.apps.localhost',
    method: 'GET',
    path: '/',
    query: '',
    status: 200,
    bytes: 1000,
    client: '200.160.2.3',
    referer: '',
    agent: browsers[0]!,
    protocol: 'HTTP/1.1',
    content_type: 'text/html; charset=utf-8',
    cache: '',
    edge_ms: '12',
    origin_ms: '10',
    colo: 'gru',
    mitigated: '',
    ...changes,
  }
}

/** As the proxy writes it, with what analytics do not read. */
export function lineOf(request: LoggedRequest): string {
  const { at } = request
  return JSON.stringify({
    time: new Date(at * 1000).toISOString(),
    ...request,
    seconds: 0.013,
    request_id: 'f'.repeat(32),
  })
}

export const linesOf = (requests: readonly LoggedRequest[]): Buffer =>
  Buffer.from(requests.map(request => `${lineOf(request)}\n`).join(''))

export const browsers = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0',
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36',
] as const

export const bots = [
  'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
  'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)',
  'curl/8.5.0',
  'Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)',
] as const

/** Numbers from 0 to 1 that look random and are the same in every run. */
export function draws(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32
  }
}

/** Requests of two applications over a span, of every kind that breakdowns tell apart, in the order of time. */
export function generatedRequests(count: number, from: number, to: number, seed = 7): LoggedRequest[] {
  const draw = draws(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(draw() * draw() * list.length)]!
  const clients = Array.from({ length: 200 }, (_, n) => `${[200, 8, 81, 2, 133][n % 5]}.${n % 7}.${n % 11}.${n}`)
  const paths = [
    '/',
    '/about',
    '/api/v1/items',
    '/caf\u00e9',
    "/it's",
    '/100%',
    '/a"b\\c',
    ...Array.from({ length: 60 }, (_, n) => `/p/${n}`),
  ]
  const referers = [
    '',
    '',
    'https://a.apps.localhost/',
    'https://www.google.com/search?q=x',
    'HTTPS://User:pw@News.Example:8443/x',
    'android-app://com.example',
    'https://[2001:db8::1]/x',
    'nonsense',
  ]
  return Array.from({ length: count }, (_, n) =>
    logged({
      app: draw() < 0.8 ? appA : appB,
      at: Math.floor(from + ((to - from) * n) / count),
      method: one(['GET', 'GET', 'POST', 'HEAD', 'PUT', 'BREW']),
      path: one(paths),
      query: one(['', 'q=1', 'a=%00&b=c']),
      status: one([200, 200, 301, 404, 500, 502, 204]),
      bytes: Math.floor(draw() * 1e6),
      client: draw() < 0.05 ? one(['127.0.0.1', '10.1.2.3', 'fe80::1']) : one(clients),
      referer: one(referers),
      agent: draw() < 0.25 ? one(bots) : draw() < 0.03 ? '' : one(browsers),
      protocol: one(['HTTP/1.1', 'HTTP/2.0', 'HTTP/1.0', 'WEIRD/9']),
      content_type: one(['text/html; charset=utf-8', 'TEXT/HTML', 'application/json', 'image/png', '']),
      cache: one(['', 'HIT', 'MISS']),
      edge_ms: one([3, 12, 250, 1999, 70_000].map(ms => ms + Math.floor(draw() * 50))),
      origin_ms: one(['', '9', '3, 44', '2 : 17', '-']),
      colo: one(['gru', 'fra', '']),
      mitigated: draw() < 0.02 ? '1' : '',
    }),
  )
}
