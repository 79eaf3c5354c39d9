import { setTimeout as sleep } from 'node:timers/promises'
import { residentBytes } from '../../activities/child-process/memory.ts'
import { MiB } from '../../lib/bytes.ts'
import { bareRestart } from '../kit/deploy-floor.docker.ts'
import type { BenchPlatform } from '../kit/platform.ts'
import { inTurn, quantile, verdict } from '../kit/sides.ts'
import { type BenchApp, type BenchApps, newText, program } from './applications.ts'
import { scriptedManifest } from './manifests.ts'

export interface TogetherOptions {
  /** Applications that are changed at once. */
  count: number
  /** How often they are changed in pairs, and at once. */
  turns: number
  /** Of the bare containers. */
  network: string
}

/** An account may send 16 uploads at once, and its plan has memory for 8 of these applications. */
const perAccount = 5
const plan = 'standard-4'
/** Between two requests for the new text of all applications that are awaited: clients load the machine alike in both orders. */
const awaitedMs = 25
/** How long restarts are measured with nothing else to do. */
const quietMs = 15_000

/**
 * Applications of many accounts that are all changed at once, each with an install step, compared with the same changes in pairs, one for
 * each build slot. During both an application of another account is restarted again and again, alongside restarts of a bare container, and
 * the memory of our processes is sampled: what is due concurrently must not take more of it than what comes in pairs.
 */
export async function together(
  platform: BenchPlatform,
  apps: BenchApps,
  { count, turns, network }: TogetherOptions,
): Promise<void> {
  const keys = await inOrder(Math.ceil(count / perAccount), () => platform.account(plan))
  // Neighbours in the list are of different accounts, each of which has its share of the slots.
  const all = await inOrder(count, n => apps.deploy({}, newText(), keys[n % keys.length]))
  const bystander = await apps.deploy({}, newText(), await platform.account(plan))
  const change = (some: BenchApp[]) =>
    Promise.all(
      some.map(app =>
        apps.commit(app, scriptedManifest(newText().replace(' ', '-')), newText(), awaitedMs * some.length),
      ),
    )
  const [quiet, inPairs, atOnce] = [emptyRestarts(), emptyRestarts(), emptyRestarts()]
  const memory = await sampledMemory(platform)
  /** The time of some work, with restarts until it ends. */
  const besideRestarts = async (into: Restarts, work: () => Promise<unknown>) => {
    const ended = new AbortController()
    const restarted = restarts(apps, bystander, { network, into, signal: ended.signal })
    try {
      return await elapsed(work)
    } finally {
      ended.abort()
      await restarted
    }
  }
  try {
    await besideRestarts(quiet, () => sleep(quietMs))
    const figures = await inTurn<'pairs' | 'together', number>(
      turns,
      {
        pairs: () =>
          memory.during('pairs', () =>
            besideRestarts(inPairs, async () => {
              for (let n = 0; n < all.length; n += 2) await change(all.slice(n, n + 2))
            }),
          ),
        together: () => memory.during('together', () => besideRestarts(atOnce, () => change(all))),
      },
      { warmUp: 0 },
    )
    const [pairs, at] = [quantile(figures.pairs, 0.5), quantile(figures.together, 0.5)]
    console.log(`${count} commits with an install step, on 2 build slots`)
    console.log(`  in pairs   ${(pairs / 1000).toFixed(1)} s`)
    console.log(
      `  at once    ${(at / 1000).toFixed(1)} s   ${(at / pairs).toFixed(2)} times; ${verdict('at most 1.2 times', at <= 1.2 * pairs)}`,
    )
    reportRestarts(quiet, inPairs, atOnce)
    memory.report()
  } finally {
    for (const app of [...all, bystander]) await apps.remove(app)
  }
}

interface Restarts {
  berth: number[]
  bare: number[]
}

const emptyRestarts = (): Restarts => ({ berth: [], bare: [] })

interface RestartOptions {
  network: string
  into: Restarts
  signal: AbortSignal
}

async function restarts(apps: BenchApps, app: BenchApp, options: RestartOptions): Promise<void> {
  const { network, into, signal } = options
  while (!signal.aborted) {
    into.berth.push(await apps.restart(app))
    into.bare.push(await bareRestart(network, program('floor'), 'floor'))
    await sleep(500)
  }
}

function reportRestarts(quiet: Restarts, inPairs: Restarts, atOnce: Restarts): void {
  const over = ({ berth, bare }: Restarts) => quantile(berth, 0.5) / quantile(bare, 0.5)
  const words = (of: Restarts) =>
    `${quantile(of.berth, 0.5).toFixed(0)} ms, ${over(of).toFixed(2)} times the engine's own ${quantile(of.bare, 0.5).toFixed(0)} ms`
  console.log(`  a restart of another account's application (median)`)
  console.log(`    before     ${words(quiet)}`)
  console.log(`    in pairs   ${words(inPairs)}`)
  const met = verdict("as many times the engine's own as before", over(atOnce) <= 1.1 * over(quiet))
  console.log(`    at once    ${words(atOnce)}; ${met}`)
}

type Phase = 'pairs' | 'together'

/** How much more memory a process may take for all at once than for pairs. */
const flatTimes = 1.25

/** Samples the resident memory of our processes while something is done. */
async function sampledMemory(platform: BenchPlatform) {
  const names = ['api', 'worker', 'host'] as const
  const pids = await Promise.all(names.map(name => platform.processId(name)))
  const now = () => pids.map(pid => residentBytes(pid) / MiB)
  const before = now()
  const peaks: Record<Phase, number[]> = { pairs: before, together: before }
  return {
    async during<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
      const sample = () => {
        const current = now()
        peaks[phase] = peaks[phase].map((mb, n) => Math.max(mb, current[n]!))
      }
      const timer = setInterval(sample, 500)
      return work().finally(() => clearInterval(timer))
    },
    report() {
      console.log(`  memory at its peak, before, in pairs and at once`)
      for (const [n, name] of names.entries()) {
        const [pairs, together] = [peaks.pairs[n]!, peaks.together[n]!]
        const met = verdict(`at most ${flatTimes} times that in pairs`, together <= flatTimes * pairs)
        console.log(
          `    ${name.padEnd(8)} ${before[n]!.toFixed(0)}, ${pairs.toFixed(0)}, ${together.toFixed(0)} MB; ${met}`,
        )
      }
    },
  }
}

async function inOrder<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  const created: T[] = []
  for (let n = 0; n < count; n++) created.push(await make(n))
  return created
}

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
