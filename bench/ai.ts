import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { residentBytes } from '../activities/child-process/memory.ts'
import { KiB } from '../lib/bytes.ts'
import { answerTokens, type Gateway, hold, load, pauseMs, seedKeys, warmUp } from './ai/calls.ts'
import { inTurn, quantile, type Sides, verdict, withSides } from './kit/sides.ts'

/**
 * Chat completions by the gateway, next to a bare Node server that requests the same stream from the same upstream and assembles it
 * (`bench/ai/bare-gateway.ts`). In alternating order, in one run. Goals: 65 % of the bare server's answers per second, 1.5 ms more at the median of
 * a client that calls one after the other, and 100 KB for each of 1,000 calls that wait for their model.
 */
const usage = `npx tsx bench/ai.ts [options]
  --rounds 5          measurements of each side; one more warms up
  --seconds 5         of each measurement
  --connections 64    of the first measurement
  --few 2             of the third; the second is one client with one key
  --held 1000         calls that are held; 0: not measured
  --accounts 600      with two slots each; half of --held, and 100 more
  --json              figures for programs, and nothing else`

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '64' },
    few: { type: 'string', default: '2' },
    held: { type: 'string', default: '1000' },
    accounts: { type: 'string', default: '600' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

type Side = 'bare' | 'berth'
const goals = { share: 0.65, moreMs: 1.5, heldBytes: 100 * KiB }

async function bench(sides: Sides): Promise<void> {
  const [rounds, seconds, connections, few, held, accounts] = [
    Number(values.rounds),
    Number(values.seconds),
    Number(values.connections),
    Number(values.few),
    Number(values.held),
    Number(values.accounts),
  ]
  const say = (line: string) => values.json || console.log(line)
  const keys = await seedKeys(sides.databaseUrl, sides.masterKey, accounts)
  const { url: upstream } = await sides.program<{ url: string }>('../ai/upstream.ts', [])
  const open = {
    bare: () => sides.program<Gateway>('../ai/bare-gateway.ts', [upstream]),
    // As many calls as the bench makes may be at its only upstream.
    async berth(): Promise<Gateway> {
      const { url, child } = await sides.berth({ AI_UPSTREAM_URL: upstream, AI_CONCURRENCY: '100000' })
      return { url, pid: child.pid! }
    },
  }
  const gateways = { bare: await open.bare(), berth: await open.berth() }
  const measure = (at: number, by = keys) => ({
    bare: () => load(gateways.bare, by, at, seconds),
    berth: () => load(gateways.berth, by, at, seconds),
  })

  const many = perSide(await inTurn(rounds, measure(connections)), figures => ({
    perSecond: median(figures, each => each.perSecond),
    cpuMs: median(figures, each => each.cpuMs),
  }))
  const share = many.berth.perSecond / many.bare.perSecond
  say(`answers of ${answerTokens} tokens, ${connections} connections`)
  for (const side of ['bare', 'berth'] as const)
    say(
      `  ${side.padEnd(6)} ${many[side].perSecond.toFixed(0)}/s   ${many[side].cpuMs.toFixed(2)} ms of its CPU for each`,
    )
  say(`  ratio  ${(share * 100).toFixed(0)} %   ${verdict('65 %', share >= goals.share)}`)

  const medianMs = async (at: number, by?: string[]) => {
    const p50 = perSide(await inTurn(rounds, measure(at, by)), figures =>
      median(figures, ({ times }) => quantile(times, 0.5)),
    )
    const more = p50.berth - p50.bare
    return { ...p50, more, text: `bare ${p50.bare.toFixed(2)}, berth ${p50.berth.toFixed(2)} ms: + ${more.toFixed(2)}` }
  }
  const alone = await medianMs(1, keys.slice(0, 1))
  say('p50 of an answer, one client with its key')
  say(`  ${alone.text}   ${verdict('+ 1.5 ms', alone.more <= goals.moreMs)}`)
  const several = await medianMs(few)
  say(`p50 of an answer, ${few} connections, each call with another key`)
  say(`  ${several.text}`)
  for (const { pid } of Object.values(gateways)) process.kill(pid)

  let bytes: Record<Side, number> | undefined
  if (held > 0) {
    const bytesPerCall = async (side: Side) => heldBytes(await open[side](), keys, held)
    bytes = perSide(
      await inTurn(rounds, { bare: () => bytesPerCall('bare'), berth: () => bytesPerCall('berth') }, { warmUp: 0 }),
      figures => median(figures, each => each),
    )
    say(`resident memory of a held call, ${held} of them`)
    say(
      `  bare ${(bytes.bare / KiB).toFixed(0)}, berth ${(bytes.berth / KiB).toFixed(0)} KB   ${verdict('100 KB', bytes.berth <= goals.heldBytes)}`,
    )
  }
  if (values.json) console.log(JSON.stringify({ many, p50: { alone, few: several }, heldBytes: bytes }))
}

/**
 * Of a process of its own, after as many calls as fill the room that its start has left: one that has served before has room for more.
 */
async function heldBytes(gateway: Gateway, keys: string[], calls: number): Promise<number> {
  await warmUp(gateway, keys, 20)
  const first = hold(gateway, keys.slice(0, 100), 200)
  await Promise.race([sleep(200 * pauseMs + 3000), first.answered])
  const before = residentBytes(gateway.pid)
  const second = hold(gateway, keys.slice(100), calls)
  await Promise.race([sleep(calls * pauseMs + 3000), first.answered, second.answered])
  const after = residentBytes(gateway.pid)
  first.leave()
  second.leave()
  await Promise.all([first.answered, second.answered])
  process.kill(gateway.pid)
  return (after - before) / calls
}

const perSide = <T, R>(figures: Record<Side, T[]>, of: (figures: T[]) => R): Record<Side, R> => ({
  bare: of(figures.bare),
  berth: of(figures.berth),
})

const median = <T>(figures: readonly T[], of: (figure: T) => number): number => quantile(figures.map(of), 0.5)

if (values.help) console.log(usage)
else await withSides(bench)
