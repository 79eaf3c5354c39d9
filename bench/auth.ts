import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import autocannon from 'autocannon'
import { type BenchKeys, seedKeys } from './kit/keys.ts'
import { inTurn, quantile, verdict, withSides } from './kit/sides.ts'

/**
 * Credentials under load, compared with a bare Koa + pg server that does the same work as one statement each (`bare-api.ts`): requests
 * spread over many accounts, and one valid key while 200 connections insist on keys of no account. In turn, in one run.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 8)
const accounts = 200

await withSides(async ({ databaseUrl, masterKey, bare, berth }) => {
  const keys = await seedKeys(databaseUrl, masterKey, accounts)
  const urls = { bare: await bare('./bare-api.ts'), berth: (await berth()).url }
  await spread(urls, keys, 'turn')
  await spread(urls, keys, 'own')
  await flooded(urls, keys, 'made-up keys', keys.madeUp)
  await flooded(urls, keys, 'revoked keys', keys.revoked)
})

type Urls = Record<'bare' | 'berth', string>

/** Authenticated GET: at 50 connections that use the accounts in turn, each beginning with another one; or at one connection of each account. */
async function spread(urls: Urls, { valid }: BenchKeys, by: 'turn' | 'own'): Promise<void> {
  const requests = valid.map(({ key, path }) => ({ method: 'GET' as const, path, headers: { authorization: key } }))
  const connections = by === 'own' ? accounts : 50
  const load = (side: keyof Urls) => async () => {
    let connection = 0
    const setupClient = (client: autocannon.Client) => {
      const first = Math.floor((connection++ % connections) * (accounts / connections))
      client.setRequests(by === 'own' ? [requests[first]!] : [...requests.slice(first), ...requests.slice(0, first)])
    }
    const result = await autocannon({ url: urls[side], connections, duration: seconds, setupClient })
    if (result.non2xx > 0 || result.errors > 0) throw new Error(`${side}: ${result.non2xx} answers were not 200`)
    return result.requests.average
  }
  const figures = await inTurn(rounds, { bare: load('bare'), berth: load('berth') })
  const [floor, found] = [quantile(figures.bare, 0.5), quantile(figures.berth, 0.5)]
  const each = by === 'own' ? ', each of its own account' : ''
  console.log(`GET of ${accounts} accounts, ${connections} connections${each}, ${rounds} rounds of ${seconds} s`)
  console.log(`  bare Koa + pg  ${floor.toFixed(0)} requests/s`)
  console.log(
    `  Berth          ${found.toFixed(0)} requests/s   ratio ${((found / floor) * 100).toFixed(0)} %   ${verdict('at least 100 %', found >= floor)}`,
  )
}

/** How long a valid key waits while 200 connections send keys of no account. */
async function flooded(urls: Urls, { valid }: BenchKeys, name: string, unknown: string[]): Promise<void> {
  console.log(`a valid key during a flood of ${name} on 200 connections, ${rounds} rounds of ${seconds} s`)
  const requests = unknown.map(key => ({
    method: 'GET' as const,
    path: valid[0]!.path,
    headers: { authorization: key },
  }))
  const load = (side: keyof Urls) => async () => {
    // In a thread of its own: the flood's own work must not be measured as waiting.
    const flood = autocannon({ url: urls[side], connections: 200, duration: seconds, requests, workers: 1 })
    await sleep(500)
    const waits = await probe(urls[side], valid[0]!, (seconds - 1) * 1000)
    const result = await flood
    if (result['2xx'] > 0 || result['5xx'] > 0) throw new Error(`${side} did not refuse all of them`)
    if (result.errors > 0) console.log(`  ${side}: ${result.errors} were not answered within 10 s`)
    return { waits, refused: result.requests.average }
  }
  const figures = await inTurn(rounds, { bare: load('bare'), berth: load('berth') }, { warmUp: 0 })
  const reported = { bare: 'bare Koa + pg', berth: 'Berth        ' }
  const p99 = { bare: 0, berth: 0 }
  for (const side of ['bare', 'berth'] as const) {
    const waits = figures[side].flatMap(({ waits }) => waits)
    const refused = figures[side].reduce((sum, { refused }) => sum + refused, 0) / rounds
    p99[side] = quantile(waits, 0.99)
    console.log(
      `  ${reported[side]}  p50 ${quantile(waits, 0.5).toFixed(1)} ms, p99 ${p99[side].toFixed(1)} ms   refused ${refused.toFixed(0)} per second`,
    )
  }
  console.log(`  Berth          ${verdict('p99 under 200 ms', p99.berth < 200)}`)
}

/** A request each 20 ms, whether the one before was answered or not; milliseconds that each took. */
async function probe(base: string, { key, path }: BenchKeys['valid'][number], durationMs: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 20 })
  const asked: Promise<number>[] = []
  for (const end = performance.now() + durationMs; performance.now() < end; await sleep(20))
    asked.push(
      new Promise((resolve, reject) => {
        const startedAt = performance.now()
        get(base + path, { agent, headers: { authorization: key } }, answer => {
          answer.resume().once('end', () => {
            if (answer.statusCode === 200) resolve(performance.now() - startedAt)
            else reject(new Error(`the valid key was answered ${answer.statusCode}`))
          })
        }).once('error', reject)
      }),
    )
  const waits = await Promise.all(asked)
  agent.destroy()
  return waits
}
