import type { RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { ask, type Origin, type Seen, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
})
test.after.always(() => proxy?.stop())

const fresh = { 'cache-control': 'max-age=3600' }
/** Answers by path. Those of `private`, `cookie` and `none` name the visitor, and so do all to requests with credentials. */
const paths = {
  public: fresh,
  vary: { ...fresh, vary: 'x-kind' },
  big: fresh,
  private: { 'cache-control': 'private, max-age=3600' },
  cookie: { ...fresh, 'set-cookie': 'a=b' },
  none: {},
} as const
type Path = keyof typeof paths
const personal = new Set<Path>(['private', 'cookie', 'none'])
const padding = 'x'.repeat(200_000)

interface Get {
  path: Path
  kind: 'a' | 'b'
  how: 'GET' | 'HEAD' | 'range' | 'credentials'
  delay: number
}

type Act =
  | { do: 'change' | 'purge' | 'deploy' }
  | { do: 'gets'; gets: Get[] }
  /** A purge or deploy while requests are under way. */
  | { do: 'race'; what: 'purge' | 'deploy'; gets: Get[]; after: number }

const gets = fc.array(
  fc.record({
    path: fc.constantFrom(...(Object.keys(paths) as Path[]), 'public', 'vary'),
    kind: fc.constantFrom('a', 'b'),
    how: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'range', 'credentials'),
    delay: fc.integer({ min: 0, max: 25 }),
  }) as fc.Arbitrary<Get>,
  { minLength: 1, maxLength: 8 },
)
const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.oneof(
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('change', 'purge', 'deploy') }) as fc.Arbitrary<Act> },
    { weight: 3, arbitrary: gets.map(all => ({ do: 'gets' as const, gets: all })) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('race' as const),
        what: fc.constantFrom('purge' as const, 'deploy' as const),
        gets,
        after: fc.integer({ min: 0, max: 20 }),
      }),
    },
  ),
  { minLength: 4, maxLength: 24 },
)

let applications = 0

/** One application, what it has answered with so far, and the content that a purge or deploy has promised to all requests from now on. */
class Scene {
  readonly appId = `model-${++applications}`
  readonly host = `${this.appId}.apps.localhost`
  readonly origins: Origin[] = []
  hits = 0
  /** The content of each release; a replaced one never gets a newer one. */
  readonly #contents: number[] = []
  #newest = 0
  #promised = 0
  #purges = 0
  #visitors = 0

  async deploy(): Promise<void> {
    this.origins.push(await startOrigin(this.#listener(this.origins.length)))
    this.change(this.#contents.length)
    await this.#setRoute(this.#newest)
  }

  async purge(): Promise<void> {
    this.#purges++
    await this.#setRoute(this.#newest)
  }

  change(release = this.#contents.length - 1): void {
    this.#contents[release] = ++this.#newest
  }

  async #setRoute(content: number): Promise<void> {
    const { port } = this.origins.at(-1)!
    const version = `${this.origins.length}.${this.#purges}`
    await proxy.edge.setRoute({ host: this.host, appId: this.appId, address: '127.0.0.1', port, version })
    this.#promised = Math.max(this.#promised, content)
  }

  /** Answers with the content at the time of the request, which a slow answer outlives. */
  #listener(release: number): RequestListener {
    return async (incoming, answer) => {
      const path = incoming.url!.slice(1) as Path
      const content = this.#contents[release]!
      const { 'x-kind': kind, 'x-visitor': visitor, 'x-delay': delay, authorization } = incoming.headers
      await sleep(Number(delay))
      const named = personal.has(path) || authorization ? visitor : 'anyone'
      const body = `${content} ${path} ${kind} ${named} ${path === 'big' ? padding : ''}.`
      answer.writeHead(200, {
        'content-length': body.length,
        'accept-ranges': 'bytes',
        'x-content': content,
        ...paths[path],
      })
      answer.end(incoming.method === 'HEAD' ? undefined : body)
    }
  }

  /** Asks, and returns what is wrong with the answer, if anything. */
  async get({ path, kind, how, delay }: Get): Promise<string | null> {
    const visitor = String(++this.#visitors)
    const promised = this.#promised
    const headers: Record<string, string> = { 'x-kind': kind, 'x-visitor': visitor, 'x-delay': String(delay) }
    if (how === 'credentials') headers.authorization = `Bearer ${visitor}`
    if (how === 'range') headers.range = 'bytes=0-99'
    const method = how === 'HEAD' ? 'HEAD' : 'GET'
    const seen = await ask(proxy.port, this.host, { method, path: `/${path}`, headers })
    const cache = seen.headers['x-cache']
    if (cache === 'hit') this.hits++
    const content = Number(seen.headers['x-content'])
    const words = `${how} ${path}: ${seen.status} ${seen.body.slice(0, 60)} (${cache}), promised ${promised}`
    if (!(content >= promised && content <= this.#newest)) return `older or unknown content: ${words}`
    if (cache !== undefined && (how === 'credentials' || (personal.has(path) && cache === 'hit')))
      return `cached: ${words}`
    return how === 'HEAD' || this.#isRight(seen, { path, kind, how, visitor, content }) ? null : words
  }

  #isRight(
    seen: Seen,
    { path, kind, how, visitor, content }: Omit<Get, 'delay'> & { visitor: string; content: number },
  ) {
    const [number, of, variant, named] = seen.body.split(' ')
    const own = personal.has(path) || how === 'credentials'
    const isPart = seen.status === 206 && seen.body.length <= 100
    const whole =
      seen.status === 200 && seen.body.endsWith('.') && (path === 'big') === seen.body.length > padding.length
    return (
      (isPart ? how === 'range' : whole) &&
      Number(number) === content &&
      of === path &&
      (path !== 'vary' || variant === kind) &&
      named === (own ? visitor : 'anyone')
    )
  }

  async act(act: Act): Promise<(string | null)[]> {
    if (act.do === 'change') this.change()
    if (act.do === 'purge' || act.do === 'deploy') await this[act.do]()
    if (act.do === 'gets') return Promise.all(act.gets.map(get => this.get(get)))
    if (act.do !== 'race') return []
    const under = act.gets.map(get => this.get(get))
    await sleep(act.after)
    this.change()
    await this[act.what]()
    return [...(await Promise.all(under)), ...(await Promise.all(act.gets.map(get => this.get(get))))]
  }
}

test('no schedule of changes, purges, deploys and requests shows anyone what is older than promised, or of another visitor', async t => {
  t.timeout(300_000)
  let hits = 0
  let asked = 0
  const property = fc.asyncProperty(acts, async all => {
    const scene = new Scene()
    try {
      await scene.deploy()
      for (const act of all) {
        const found = await scene.act(act)
        asked += found.length
        const wrong = found.filter(words => words !== null)
        if (wrong.length) throw new Error(wrong.join('\n'))
      }
    } finally {
      hits += scene.hits
      await Promise.all(scene.origins.map(origin => origin.stop()))
    }
  })
  await fc.assert(property, { numRuns: 30 }).catch(error => {
    throw new Error(`${error.message}\n${error.cause?.message}`)
  })
  t.log(`${asked} requests, ${hits} from the cache`)
  t.true(hits > 20, 'the cache was used')
})
