import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { residentBytes } from '../activities/child-process/memory.ts'
import { GiB, MiB } from '../lib/bytes.ts'
import { inTurn, quantile, verdict } from './kit/sides.ts'
import { growTree } from './kit/snapshot-tree.ts'

/**
 * A snapshot compared with `zip -qr` of the same tree, on the same disk, in turn. Every good snapshot is read back, so that this counts; it
 * is also printed on its own. Goal: at most 1.3 times the time of zip, and none of our processes over 150 MB.
 */
const gigabytes = Number(process.argv[2] ?? 2)
const files = Number(process.argv[3] ?? 50_000)
const rounds = Number(process.argv[4] ?? 3)

// Compiled, as it runs; the loader of TypeScript alone would take 30 MB in the child.
const compiled = new URL('../dist/activities/snapshots/process.js', import.meta.url)
if (!existsSync(compiled)) throw new Error('Compile first: ./berth up does, or npm run build.')
const { snapshots } = (await import(compiled.href)) as typeof import('../activities/snapshots/process.ts')

const folder = mkdtempSync(join(tmpdir(), 'berth-bench-'))
const [tree, archive] = [join(folder, 'tree'), join(folder, 'out.zip')]
const peaks = [0]
const port = snapshots({ observe: bytes => void peaks.push(bytes) })
const signal = new AbortController().signal
const facts = { appId: 'bench', name: 'bench', createdAt: '', variablesVersion: 0, configuration: {} }

async function zip(): Promise<void> {
  const [code] = await once(spawn('zip', ['-qr', archive, '.'], { cwd: tree, stdio: 'inherit' }), 'close')
  if (code !== 0) throw new Error('zip is needed as well, and failed or is not installed.')
}

async function snapshot(): Promise<void> {
  const nobody = async () => {}
  const { body, totals } = port.make({ files: tree, facts, pause: nobody, resume: nobody, signal })
  await pipeline(body, createWriteStream(archive))
  const { pausedMs } = await totals
  paused.push(pausedMs)
}

async function verify(): Promise<void> {
  const file = await open(archive)
  await port.verify(file, signal).finally(() => file.close())
}

/** Seconds; what others still have to write is written first. */
async function timed(work: () => Promise<void>): Promise<number> {
  await once(spawn('sync'), 'close')
  const startedAt = performance.now()
  await work()
  return (performance.now() - startedAt) / 1000
}

const paused: number[] = []
const sizes = { zip: 0, snapshot: 0 }
try {
  const bytes = growTree(tree, gigabytes * GiB, files)
  console.log(`${files + 1} files, ${(bytes / GiB).toFixed(2)} GB`)
  const idle = residentBytes(process.pid)
  const kept = async (side: keyof typeof sizes) => {
    sizes[side] = statSync(archive).size
    await unlink(archive)
  }
  const figures = await inTurn(
    rounds,
    {
      zip: async () => {
        const made = await timed(zip)
        await kept('zip')
        return { made, verified: 0 }
      },
      snapshot: async () => {
        const made = await timed(snapshot)
        const verified = await timed(verify)
        await kept('snapshot')
        return { made, verified }
      },
    },
    { warmUp: 0 },
  )
  const median = (values: number[]) => quantile(values, 0.5)
  const whole = (side: keyof typeof sizes) => median(figures[side].map(({ made, verified }) => made + verified))
  const verified = median(figures.snapshot.map(round => round.verified))
  const ratio = whole('snapshot') / whole('zip')
  const mb = (size: number) => Math.round(size / MiB)
  console.log(
    `zip ${whole('zip').toFixed(1)} s, snapshot ${whole('snapshot').toFixed(1)} s, ${verified.toFixed(1)} s of them to verify it`,
  )
  console.log(`ratio of the medians of ${rounds} rounds: ${ratio.toFixed(2)} (${verdict('at most 1.3', ratio <= 1.3)})`)
  console.log(`stood still for ${median(paused)} ms`)
  console.log(`archives: zip ${mb(sizes.zip)} MB, snapshot ${mb(sizes.snapshot)} MB`)
  const child = mb(Math.max(...peaks))
  const grown = mb(residentBytes(process.pid, 'peak') - idle)
  console.log(
    `children at most ${child} MB, this process grew by ${grown} MB (${verdict('under 150', Math.max(child, grown) < 150)})`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
