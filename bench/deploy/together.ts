import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { bareRestart } from '../kit/deploy-floor.docker.ts'
import type { BenchPlatform } from '../kit/platform.ts'
import { inTurn, quantile, verdict } from '../kit/sides.ts'
import { type BenchApp, type BenchApps, newText, program } from './applications.ts'
import { scriptedManifest } from './manifests.ts'

export interface TogetherOptions {
  /** Applications that are changed at once. */
  count: number
  /** Of the bare containers. */
  network: string
}

/** An account may send 16 uploads at once, and its plan has memory for 8 of these applications. */
const perAccount = 5
const plan = 'standard-4'

/**
 * Applications of many accounts that are all changed at once, each with an install step, beside the same changes in pairs, one for each
 * build slot. Meanwhile an application of another account is restarted again and again, beside restarts of a bare container, and the
 * memory of our processes is sampled.
 */
export async function together(
  platform: BenchPlatform,
  apps: BenchApps,
  { count, network }: TogetherOptions,
): Promise<void> {
  const keys = await inOrder(Math.ceil(count / perAccount), () => platform.account(plan))
  // Neighbours in the list are of different accounts, each of which has its share of the slots.
  const all = await inOrder(count, n => apps.deploy({}, newText(), keys[n % keys.length]))
  const bystander = await apps.deploy({}, newText(), await platform.account(plan))
  const change = (app: BenchApp) => apps.commit(app, scriptedManifest(newText().replace(' ', '-')), newText())
  const commands = () => restarts(apps, bystander, network)
  try {
    const quiet = await commands().measure(8)
    const memory = await sampledMemory(platform)
    const busy = commands()
    const figures = await inTurn<'pairs' | 'together', number>(
      2,
      {
        pairs: () =>
          elapsed(async () => {
            for (let n = 0; n < all.length; n += 2) await Promise.all(all.slice(n, n + 2).map(change))
          }),
        together: async () => {
          const ended = new AbortController()
          const measured = busy.measure(Number.POSITIVE_INFINITY, ended.signal)
          const took = await elapsed(() => Promise.all(all.map(change)))
          ended.abort()
          await measured
          return took
        },
      },
      { warmUp: 0 },
    )
    const [pairs, at] = [quantile(figures.pairs, 0.5), quantile(figures.together, 0.5)]
    console.log(`${count} commits with an install step, on 2 build slots`)
    console.log(`  in pairs   ${(pairs / 1000).toFixed(1)} s`)
    console.log(
      `  at once    ${(at / 1000).toFixed(1)} s   ${(at / pairs).toFixed(2)} times; ${verdict('at most 1.2 times', at <= 1.2 * pairs)}`,
    )
    reportRestarts(quiet, busy.figures)
    memory.report()
  } finally {
    for (const app of [...all, bystander]) await apps.remove(app)
  }
}

interface Restarts {
  berth: number[]
  bare: number[]
}

function restarts(apps: BenchApps, app: BenchApp, network: string) {
  const figures: Restarts = { berth: [], bare: [] }
  return {
    figures,
    async measure(times: number, signal?: AbortSignal): Promise<Restarts> {
      for (let n = 0; n < times && !signal?.aborted; n++) {
        figures.berth.push(await apps.restart(app))
        figures.bare.push(await bareRestart(network, program('floor'), 'floor'))
        await sleep(500)
      }
      return figures
    },
  }
}

function reportRestarts(quiet: Restarts, busy: Restarts): void {
  const over = ({ berth, bare }: Restarts) => quantile(berth, 0.5) / quantile(bare, 0.5)
  const words = ({ berth, bare }: Restarts) =>
    `${quantile(berth, 0.5).toFixed(0)} ms, the engine's own ${quantile(bare, 0.5).toFixed(0)} ms`
  console.log(`  a restart of another account's application (median)`)
  console.log(`    before     ${words(quiet)}`)
  const met = verdict("as many times the engine's own as before", over(busy) <= 1.1 * over(quiet))
  console.log(`    meanwhile  ${words(busy)}; ${met}`)
}

/** Samples the resident memory of our processes from now on. */
async function sampledMemory(platform: BenchPlatform) {
  const names = ['api', 'worker', 'host'] as const
  const pids = await Promise.all(names.map(name => platform.processId(name)))
  const now = () => pids.map(residentMb)
  const before = now()
  let peak = before
  const timer = setInterval(() => {
    const current = now()
    peak = peak.map((mb, n) => Math.max(mb, current[n]!))
  }, 500)
  return {
    report() {
      clearInterval(timer)
      const words = names.map(
        (name, n) => `${name} ${before[n]!.toFixed(0)} + ${(peak[n]! - before[n]!).toFixed(0)} MB`,
      )
      console.log(`  memory at its peak: ${words.join(', ')}`)
    },
  }
}

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

async function inOrder<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  const made: T[] = []
  for (let n = 0; n < count; n++) made.push(await make(n))
  return made
}

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
