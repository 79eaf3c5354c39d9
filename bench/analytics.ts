import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { openAddressReader } from '../activities/analytics/addresses.ts'
import { openDuckDb } from '../activities/analytics/duckdb.ts'
import { MiB } from '../lib/bytes.ts'
import { engineLimits } from '../policy/network/analytics-terms.ts'
import type { Filters } from '../policy/network/filters.ts'
import { appA, generatedRequests, linesOf } from '../test/kit/analytics/log-lines.ts'
import { quantile, verdict } from './kit/sides.ts'

/**
 * Analytics and the engine alone, in CPU seconds of one process, in turn: lines of the log taken in and summed, compared with `insert from read_json`
 * of the same slices into a plain table, both with what is stored in the end; and the 14 breakdowns of one application, compared with one
 * hand-written query for each on the same file. Lines are in the order of time, as the proxy writes them.
 */
const rounds = Number(process.argv[2] ?? 3)
const rows = Number(process.argv[3] ?? 1_000_000)
const sliceLines = 20_000

const folder = mkdtempSync(join(tmpdir(), 'berth-bench-'))
const day = '2026-11-26'
const from = Date.parse(`${day}T00:00:00Z`)
const window = { from, to: from + 86_400_000 }

/** Slice `n` of `of`, in the order of time. */
const slice = (n: number, of: number) =>
  linesOf(
    generatedRequests(sliceLines, from + (86_400_000 * n) / of, from + (86_400_000 * (n + 1)) / of, (n % 100) + 1),
  )

try {
  await takenIn(Array.from({ length: 20 }, (_, n) => slice(n, 20)))
  await answered()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function openEngine(name: string) {
  return openDuckDb({
    folder: join(folder, name),
    addresses: await openAddressReader({ countryDatabase: null, asnDatabase: null, own: [] }),
    onBroken: (_day, error) => {
      throw error
    },
  })
}

/** As many threads as Berth's engine has, unless a number is given: with more they wait actively for each other. */
async function plain(name: string, threads: number = engineLimits.threads) {
  const instance = await DuckDBInstance.create(':memory:', { threads: String(threads), memory_limit: '512MB' })
  const connection = await instance.connect()
  await connection.run(`attach '${join(folder, name)}' as plain`)
  return {
    connection,
    close() {
      connection.closeSync()
      instance.closeSync()
    },
  }
}

/** CPU seconds of a piece of work, all threads of this process together. */
async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

async function takenIn(slices: readonly Buffer[]): Promise<void> {
  const columns = `{app: 'VARCHAR', "at": 'DOUBLE', host: 'VARCHAR', method: 'VARCHAR', path: 'VARCHAR', query: 'VARCHAR', status: 'USMALLINT',
    bytes: 'UBIGINT', client: 'VARCHAR', referer: 'VARCHAR', agent: 'VARCHAR', protocol: 'VARCHAR', content_type: 'VARCHAR', cache: 'VARCHAR',
    edge_ms: 'VARCHAR', origin_ms: 'VARCHAR', colo: 'VARCHAR', mitigated: 'VARCHAR'}`
  const files = slices.map((lines, n) => {
    const path = join(folder, `slice-${n}.json`)
    writeFileSync(path, lines)
    return path
  })
  const read = (file: string) =>
    `select * from read_json('${file}', format = 'newline_delimited', columns = ${columns})`
  const figures = { bare: [] as number[], parallel: [] as number[], berth: [] as number[] }
  async function bare(name: string, threads?: number): Promise<number> {
    const { connection, close } = await plain(`${name}.duckdb`, threads)
    await connection.run(`create table plain.lines as ${read(files[0]!)} limit 0`)
    const spent = await cpuOf(async () => {
      for (const file of files) await connection.run(`insert into plain.lines ${read(file)}`)
      await connection.run('checkpoint plain')
    })
    close()
    return spent
  }
  for (let round = 0; round < rounds; round++) {
    const sides = {
      async bare() {
        figures.bare.push(await bare(`bare-${round}`))
        figures.parallel.push(await bare(`parallel-${round}`, 2))
      },
      async berth() {
        const engine = await openEngine(`berth-${round}`)
        figures.berth.push(
          await cpuOf(async () => {
            for (const [n, lines] of slices.entries()) {
              await engine.take({ day, file: `f${n}`, head: '', end: 1, lines })
              await engine.rollUp()
            }
            await engine.close()
          }),
        )
      },
    }
    for (const side of round % 2 ? (['berth', 'bare'] as const) : (['bare', 'berth'] as const)) await sides[side]()
  }
  const count = slices.length * sliceLines
  const size = slices.reduce((sum, { length }) => sum + length, 0) / MiB
  const [alone, parallel, berth] = [figures.bare, figures.parallel, figures.berth].map(spent => quantile(spent, 0.5))
  console.log(`${count} lines (${size.toFixed(0)} MiB) taken in, ${rounds} rounds, lines per CPU second`)
  console.log(
    `  insert from read_json  ${(count / alone!).toFixed(0)}   with two threads ${(count / parallel!).toFixed(0)}`,
  )
  console.log(
    `  Berth                  ${(count / berth!).toFixed(0)}   ratio ${((alone! / berth!) * 100).toFixed(0)} %   ${verdict('at least 60 %', alone! / berth! >= 0.6)}`,
  )
}

/** What somebody would write who needs one breakdown. */
function handWritten(where: string): string[] {
  return [
    `'all'`,
    'country',
    'device',
    'os',
    'browser',
    'protocol',
    'method',
    'path',
    `coalesce(referer_host, 'Direct')`,
    'provider',
    'client',
    'status::varchar',
    'bot',
    'content_type',
  ].map((type, n) => {
    const bucket = n < 10 ? 'seen // 900000' : '0'
    const agents = ['device', 'os', 'browser', 'bot'].includes(type) ? 'left join plain.agents a on a.id = r.agent' : ''
    return `select ${bucket} as b, ${type} as t, count(*) filter (visit), count(*), sum(bytes) from plain.requests r ${agents}
      where app = '${appA}' ${where} group by all order by all`
  })
}

async function answered(): Promise<void> {
  const engine = await openEngine('questions')
  const slices = Math.ceil(rows / sliceLines)
  for (let n = 0; n < slices; n++) {
    await engine.take({ day, file: 'f', head: '', end: 1, lines: slice(n, slices) })
    await engine.rollUp()
  }
  const questions: [name: string, filters: Filters, where: string][] = [
    ['no filter', {}, ''],
    ['country', { country: 'BR' }, `and country = 'BR'`],
    ['path and status', { path: '/p/1', status: '200' }, `and starts_with(path, '/p/1') and status = 200`],
  ]
  const ours = new Map<string, number[]>()
  for (let round = 0; round < rounds; round++)
    for (const [name, filters] of questions) {
      const spent = await cpuOf(() => engine.ask({ kind: 'analytics', appId: appA, ownerId: '1', window, filters }))
      ours.set(name, [...(ours.get(name) ?? []), spent])
    }
  await engine.close()
  const { connection, close } = await plain(`questions/${day}.duckdb`)
  console.log(
    `14 breakdowns of the ${Math.round(rows * 0.8)} requests of one application among ${rows}, ${rounds} rounds, CPU seconds`,
  )
  for (const [name, , where] of questions) {
    const spent: number[] = []
    for (let round = 0; round < rounds; round++)
      spent.push(
        await cpuOf(async () => {
          for (const query of handWritten(where)) await connection.runAndReadAll(query)
        }),
      )
    const [bare, berth] = [quantile(spent, 0.5), quantile(ours.get(name)!, 0.5)]
    console.log(
      `  ${name.padEnd(16)} hand-written ${bare.toFixed(2)}   Berth ${berth.toFixed(2)}   ${(berth / bare).toFixed(2)} times   ${verdict('at most 1.3 times', berth <= 1.3 * bare)}`,
    )
  }
  close()
}
