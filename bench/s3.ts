import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { KiB, MiB } from '../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'
import { startProgram } from './kit/programs.ts'
import type { Figures, Order, Outcome, Task } from './kit/s3-client.ts'
import type { Bucket } from './kit/s3-requests.ts'
import { rivals } from './kit/s3-rivals.ts'
import { berthSide, type Peak, type Place, rivalSide, type Side, watchMemory } from './kit/s3-sides.ts'
import { medians, type Row, tableOf, verdictOf } from './kit/s3-table.ts'
import { inTurn, type Sides, withSides } from './kit/sides.ts'

/**
 * The S3 gateway compared with other S3 servers of one machine, each as it is by default, with one client in a process of its own: PUT and
 * GET of 4 KiB and of 64 MiB, pages of 1,000 keys, DeleteObjects of 1,000, an upload of 1 GiB in parts, memory. In turn, in one run, on one
 * disk. Goal: in every line at least as good as the best rival. `--small` is for a look: less of everything, one round.
 */
const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    small: { type: 'boolean', default: false },
    /** Names, with commas between them. */
    only: { type: 'string', default: 'berth,versitygw,minio,rclone,s3rver' },
    'skip-million': { type: 'boolean', default: false },
  },
})
const { small } = given
const chosen = given.only.split(',')
const rounds = Number(positionals[0] ?? (small ? 1 : 3))
const sizes = small
  ? { seconds: 1, bytes: 64 * MiB, files: 1, pages: 5, parted: 128 * MiB, objects: 20_000 }
  : { seconds: 4, bytes: 64 * MiB, files: 4, pages: 10, parted: 1024 * MiB, objects: 1_000_000 }
const [object, part, connections] = [4 * KiB, 16 * MiB, 16]
const [keeper, thousand] = ['file-', 1000]
/** A rival's folder of `sizes.objects` files is filled for so long at most. */
const seedSeconds = 60

interface Workload {
  title: string
  place: Place
  /** `run` is another one each time, for names that are new. */
  task(run: string): Task
  figures: Record<string, Pick<Row, 'unit' | 'better'>>
}

const [perSecond, megabytes] = [
  { unit: 'requests/s', better: 'more' } as const,
  { unit: 'MB/s', better: 'more' } as const,
]
const [p99, ms] = [{ unit: 'p99 ms', better: 'less' } as const, { unit: 'ms', better: 'less' } as const]
const whole = (bytes: number) => `${bytes / MiB} MiB`
const workloads: readonly Workload[] = [
  {
    title: `PUT 4 KiB, ${connections} connections`,
    place: 'work',
    task: run => ({ kind: 'put', prefix: `put-${run}/`, bytes: object, connections, seconds: sizes.seconds }),
    figures: { rate: perSecond, p99 },
  },
  {
    title: `GET 4 KiB, ${connections} connections`,
    place: 'few',
    task: () => ({ kind: 'get', prefix: keeper, count: thousand, bytes: object, connections, seconds: sizes.seconds }),
    figures: { rate: perSecond, p99 },
  },
  {
    title: `PUT ${whole(sizes.bytes)}, one after another`,
    place: 'work',
    task: run => ({ kind: 'upload', prefix: `upload-${run}/`, bytes: sizes.bytes, files: sizes.files }),
    figures: { rate: megabytes },
  },
  {
    title: `GET ${whole(sizes.bytes)}, one after another`,
    place: 'work',
    task: run => ({ kind: 'download', prefix: `download-${run}/`, bytes: sizes.bytes, files: sizes.files }),
    figures: { rate: megabytes },
  },
  {
    title: 'list 1,000 of 1,000 keys',
    place: 'few',
    task: () => ({ kind: 'list', times: sizes.pages }),
    figures: { ms },
  },
  {
    title: `list 1,000 of ${sizes.objects.toLocaleString('en')} keys`,
    place: 'many',
    task: () => ({ kind: 'list', times: sizes.pages }),
    figures: { ms },
  },
  {
    title: 'DeleteObjects of 1,000',
    place: 'work',
    // In no folder: s3rver fails when it removes one that has become empty.
    task: run => ({ kind: 'delete', prefix: `delete-${run}-`, bytes: object }),
    figures: { ms },
  },
  {
    title: `upload of ${whole(sizes.parted)} in parts of ${whole(part)}, 4 connections`,
    place: 'work',
    task: run => ({ kind: 'multipart', key: `parts-${run}/x`, bytes: sizes.parted, partBytes: part, connections: 4 }),
    figures: { rate: megabytes },
  },
]

/** Why a figure is missing. */
const notes: string[] = []
const children: ChildProcess[] = []
type Perform = (bucket: Bucket, task: Task) => Promise<Figures>

class ClientEnded extends Error {
  override message = 'The client has ended, or the run was interrupted.'
}

await withSides(async sides => {
  try {
    const perform = await startClient()
    const all = await startAll(sides, perform)
    const peaks = watchMemory(all)
    const rows: Row[] = []
    const wanted = workloads.filter(({ place }) => place !== 'many' || !given['skip-million'])
    for (const workload of wanted) rows.push(...(await measure(all, workload, perform)))
    report(all, [...rows, ...memoryRows([...peaks()])])
  } finally {
    for (const child of children) child.kill('SIGKILL')
  }
})

async function startClient(): Promise<Perform> {
  const { child } = await startProgram('./s3-client.ts', [])
  children.push(child)
  const ended = once(child, 'exit').then(() => Promise.reject(new ClientEnded()))
  ended.catch(() => {}) // reported to the caller that waits for figures
  // A run that is interrupted is cleaned up as one that fails.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => child.kill())
  return async (bucket, task) => {
    if (child.exitCode === null && child.signalCode === null) child.send({ bucket, task } satisfies Order)
    const [outcome] = (await Promise.race([once(child, 'message'), ended])) as [Outcome]
    if ('error' in outcome) throw new Error(outcome.error)
    return outcome.figures
  }
}

/** The chosen ones that can be started, with the objects that are read and listed. */
async function startAll(sides: Sides, perform: Perform): Promise<Side[]> {
  const many = given['skip-million'] ? 0 : sizes.objects
  const create = (bucket: Bucket) => perform(bucket, { kind: 'create' })
  const started: Side[] = []
  const begin = async (name: string, start: () => Promise<Side>) => {
    console.error(`${name} starts ...`)
    try {
      const side = await start()
      if (side.child) children.push(side.child)
      await perform(side.buckets.few!, { kind: 'fill', prefix: keeper, count: thousand, bytes: object })
      started.push(side)
      if (side.unseeded) notes.push(`${name} has no list of ${many} keys: ${side.unseeded}.`)
    } catch (error) {
      leftOut(`${name} is left out`, error)
    }
  }
  if (chosen.includes('berth')) await begin('Berth', () => berthSide(sides, many))
  for (const rival of rivals.filter(({ name }) => chosen.includes(name))) {
    const folder = `${sides.folder}/rivals/${rival.name}`
    await begin(rival.name, () => rivalSide(rival, folder, { create, many, seconds: seedSeconds }))
  }
  return started
}

async function measure(all: readonly Side[], { title, place, task, figures }: Workload, perform: Perform) {
  const broken = new Set<Side>()
  let run = 0
  const once = (side: Side) => async (): Promise<Figures | null> => {
    if (broken.has(side)) return null
    // Nobody waits for what others have written and not synced.
    await runProcess('sync', [], { env: systemEnvironment })
    return perform(side.buckets[place]!, task(`${++run}`)).catch(error => {
      leftOut(`${side.name} has no figure for "${title}"`, error)
      broken.add(side)
      return null
    })
  }
  const able = all.filter(side => side.buckets[place])
  const rounded = await inTurn(rounds, Object.fromEntries(able.map(side => [side.name, once(side)])))
  const middle = able.flatMap(side => (broken.has(side) ? [] : [[side.name, medians(rounded[side.name]!)] as const]))
  return Object.entries(figures).map(([key, { unit, better }]): Row => {
    const row = { title, unit, better, figures: new Map(middle.map(([name, median]) => [name, median[key]!])) }
    console.error(
      [`${title}, ${unit}:`, ...[...row.figures].map(([name, figure]) => `${name} ${figure.toFixed(1)}`)].join('  '),
    )
    return row
  })
}

/** The issue counts resident bytes; with those of a Postgres, whose processes share most of theirs, the second line says more. */
function memoryRows(peaks: readonly [string, Peak][]): Row[] {
  const row = (title: string, of: keyof Peak): Row => ({
    title,
    unit: 'MB',
    better: 'less',
    figures: new Map(peaks.map(([name, peak]) => [name, peak[of] / MiB])),
  })
  return [
    row('memory at its peak, all processes', 'resident'),
    row('the same, shared memory counted once', 'sharedOnce'),
  ]
}

function report(all: readonly Side[], rows: readonly Row[]): void {
  const names = all.map(({ name }) => name)
  console.log(`\n${tableOf(names, rows)}\n`)
  const verdicts = rows.map(verdictOf).filter(verdict => verdict !== null)
  console.log('Medians of the rounds. Berth / best rival: 1.00 is as good, more is better, in times and memory too.')
  const missed = verdicts.filter(verdict => !verdict.met).length
  const outcome = missed === 0 ? 'met' : `MISSED in ${missed} of ${verdicts.length}`
  if (verdicts.length > 0) console.log(`Goal: at least 1.00 in every line, ${outcome}`)
  console.log('What each has synced when it answers an upload:')
  for (const { name, about } of all) console.log(`- ${name}: ${about}`)
  for (const note of notes) console.log(note)
}

/** Goes on without it, except when the client has ended, and the run with it. */
function leftOut(what: string, error: unknown): void {
  if (error instanceof ClientEnded) throw error
  const reason = error instanceof Error ? error.message.trim().split('\n').at(-1) : String(error)
  console.error(`${what}: ${reason}`)
  notes.push(`${what}: ${reason}`)
}
