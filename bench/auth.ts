import type { ChildProcess } from 'node:child_process'
import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import autocannon from 'autocannon'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../cli/test-postgres.ts'
import { Supervisor } from '../workers/supervisor.ts'
import { type BenchKeys, seedKeys } from './keys.ts'
import { summary } from './platform.ts'
import { startApi, startProgram } from './programs.ts'

/**
 * Credentials under load, beside a bare Koa + pg server that does the same work as one statement each (`bare-api.ts`): requests
 * spread over many accounts, and one valid key while 200 connections insist on keys of no account. In turn, in one run.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 8)
const masterKey = 'ab'.repeat(32)
const accounts = 200

const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
const children: ChildProcess[] = []
try {
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {})
  const url = new URL(adminUrl)
  url.pathname = `/${templateDatabase}`
  const keys = await seedKeys(url.href, masterKey, accounts)
  const bare = await startProgram<{ port: number }>('./bare-api.ts', [url.href])
  const api = await startApi({ databaseUrl: url.href, masterKey, folder })
  children.push(bare.child, api.child)
  const sides = { bare: `http://127.0.0.1:${bare.told.port}`, berth: api.url }
  await spread(sides, keys)
  await flooded(sides, keys, 'made-up keys', keys.madeUp)
  await flooded(sides, keys, 'revoked keys', keys.revoked)
} finally {
  for (const child of children) child.kill('SIGKILL')
  await supervisor.stop()
  removeThrowAway(folder)
}

type Sides = Record<'bare' | 'berth', string>

/** Authenticated GET at 50 connections, each request by the next account. */
async function spread(sides: Sides, { valid }: BenchKeys): Promise<void> {
  const figures = { bare: [] as number[], berth: [] as number[] }
  const requests = valid.map(({ key, path }) => ({ method: 'GET' as const, path, headers: { authorization: key } }))
  for (let round = -1; round < rounds; round++)
    for (const side of ['bare', 'berth'] as const) {
      const result = await autocannon({ url: sides[side], connections: 50, duration: seconds, requests })
      if (result.non2xx > 0 || result.errors > 0) throw new Error(`${side}: ${result.non2xx} answers were not 200`)
      if (round >= 0) figures[side].push(result.requests.average) // the first warms up
    }
  const [floor, found] = [summary(figures.bare).median, summary(figures.berth).median]
  console.log(`GET of ${accounts} accounts, 50 connections, ${rounds} rounds of ${seconds} s`)
  console.log(`  bare Koa + pg  ${floor.toFixed(0)} requests/s`)
  console.log(`  Berth          ${found.toFixed(0)} requests/s   ratio ${((found / floor) * 100).toFixed(0)} %`)
}

/** How long a valid key waits while 200 connections send keys of no account. */
async function flooded(sides: Sides, { valid }: BenchKeys, name: string, unknown: string[]): Promise<void> {
  console.log(`a valid key during a flood of ${name} on 200 connections, ${rounds} rounds of ${seconds} s`)
  const requests = unknown.map(key => ({
    method: 'GET' as const,
    path: valid[0]!.path,
    headers: { authorization: key },
  }))
  const waits = { bare: [] as number[], berth: [] as number[] }
  const refused = { bare: 0, berth: 0 }
  for (let round = 0; round < rounds; round++)
    for (const side of ['bare', 'berth'] as const) {
      // In a thread of its own: the flood's own work must not be measured as waiting.
      const flood = autocannon({ url: sides[side], connections: 200, duration: seconds, requests, workers: 1 })
      await sleep(500)
      waits[side].push(...(await probe(sides[side], valid[0]!, (seconds - 1) * 1000)))
      const result = await flood
      if (result['2xx'] > 0 || result['5xx'] > 0) throw new Error(`${side} did not refuse all of them`)
      refused[side] += result.requests.average / rounds
      if (result.errors > 0) console.log(`  ${side}: ${result.errors} were not answered within 10 s`)
    }
  for (const side of ['bare', 'berth'] as const)
    console.log(
      `  ${side === 'bare' ? 'bare Koa + pg' : 'Berth        '}  p50 ${at(waits[side], 0.5)} ms, p99 ${at(waits[side], 0.99)} ms   refused ${refused[side].toFixed(0)} per second`,
    )
  console.log(`  ratio of p99   ${(at(waits.berth, 0.99) / at(waits.bare, 0.99)).toFixed(2)}`)
}

/** A request each 20 ms, whether the one before was answered or not; milliseconds that each took. */
async function probe(base: string, { key, path }: BenchKeys['valid'][number], durationMs: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 20 })
  const asked: Promise<number>[] = []
  for (const end = performance.now() + durationMs; performance.now() < end; await sleep(20))
    asked.push(
      new Promise((resolve, reject) => {
        const begun = performance.now()
        get(base + path, { agent, headers: { authorization: key } }, answer => {
          answer.resume().once('end', () => {
            if (answer.statusCode === 200) resolve(performance.now() - begun)
            else reject(new Error(`the valid key was answered ${answer.statusCode}`))
          })
        }).once('error', reject)
      }),
    )
  const waits = await Promise.all(asked)
  agent.destroy()
  return waits
}

function at(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return Math.round(sorted[Math.floor((sorted.length - 1) * share)]! * 10) / 10
}
