import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type BenchApp, BenchApps, newText, program } from './deploy/applications.ts'
import { emptyManifest, lockedManifest } from './deploy/manifests.ts'
import { together } from './deploy/together.ts'
import { bareDeploy, bareRestart, floorNetwork } from './kit/deploy-floor.docker.ts'
import { startPlatform } from './kit/platform.ts'
import { inTurn, quantile, verdict } from './kit/sides.ts'

/**
 * From a request until the right text is answered over the proxy, compared with the floor: the same program in a container made with bare
 * engine calls. Each row in turn with the floor, in one run, on one machine; a host that has deployed before. The rows with dependencies
 * need a registry of packages.
 */
const allRows = 'upload,answer,commit,manifest,first,second,code,lock,many,unchanged,restart,together'
const usage = `npx tsx bench/deploy.ts [options]
  --rounds 15       of each row; two more warm up
  --rows a,b        only these: ${allRows}
  --files 50000     of the applications of the rows "many" and "unchanged"
  --together 50     applications that are changed at once
  --turns 2         how often they are changed in either order`

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    rows: { type: 'string', default: allRows },
    files: { type: 'string', default: '50000' },
    together: { type: 'string', default: '50' },
    turns: { type: 'string', default: '2' },
    help: { type: 'boolean', default: false },
  },
})

interface Row {
  title: string
  /** Goal: ms over the floor at the median; null = none. */
  goal: number | null
  /** What is there before each measurement. */
  before?: () => Promise<BenchApp>
  measure: (app: BenchApp | undefined) => Promise<number>
  /** The application stays for the next measurement. */
  keeps?: true
  /** What the row is compared with; a deploy by default, null = nothing. */
  floor?: ((network: string) => Promise<number>) | null
}

const rounds = Number(values.rounds)

async function bench(): Promise<void> {
  // Room for the applications of the last row, which use little of what is reserved for them.
  const platform = await startPlatform({ HOST_MEMORY_MB: '65536', HOST_DISK_MB: '262144' })
  const network = await floorNetwork()
  try {
    const apps = new BenchApps(platform)
    const rows = rowsOf(apps)
    for (const name of values.rows.split(',')) {
      const many = { count: Number(values.together), turns: Number(values.turns), network: network.name }
      if (name === 'together') await together(platform, apps, many)
      else await beside(rows[name as keyof typeof rows], apps, network.name)
    }
  } finally {
    await network.remove()
    await platform.stop()
  }
}

function rowsOf(apps: BenchApps) {
  const upload = (files: Record<string, string>) => async () => {
    const app = await apps.deploy(files, newText())
    await apps.remove(app)
    return app.took
  }
  const commit = (files: () => Record<string, string>) => (app: BenchApp | undefined) =>
    apps.commit(app!, files(), newText())
  let large: BenchApp | undefined
  let dependent: BenchApp | undefined
  return {
    upload: { title: 'POST /v2/apps, one file', goal: 250, measure: upload({}) },
    answer: {
      title: 'POST /v2/apps, until it is answered',
      goal: 60,
      floor: null,
      measure: async () => {
        const app = await apps.deploy({}, newText())
        await apps.remove(app)
        return app.answered
      },
    },
    restart: {
      title: 'POST restart, until it is answered',
      goal: 60,
      floor: network => bareRestart(network, program('floor'), 'floor'),
      before: () => apps.deploy({}, newText()),
      measure: app => apps.restart(app!),
    },
    commit: {
      title: 'POST commit, one file',
      goal: 350,
      before: () => apps.deploy({}, newText()),
      measure: commit(() => ({})),
    },
    manifest: { title: 'POST /v2/apps, a manifest without dependencies', goal: 250, measure: upload(emptyManifest) },
    first: {
      title: 'POST /v2/apps, dependencies that were never installed',
      goal: null,
      measure: () => upload(lockedManifest(newText()))(),
    },
    second: {
      title: 'POST /v2/apps, dependencies that another application of the account has',
      goal: null,
      measure: upload(lockedManifest('second')), // what warms up installs them
    },
    code: {
      title: 'POST commit, code only, next to dependencies',
      goal: 500,
      before: () => apps.deploy(lockedManifest('code'), newText()),
      measure: commit(() => lockedManifest('code')),
    },
    lock: {
      title: 'POST commit, a changed lock file',
      goal: null,
      before: () => apps.deploy(lockedManifest('lock'), newText()),
      measure: commit(() => lockedManifest(newText())),
    },
    many: {
      title: `POST commit, one of ${values.files} files`,
      goal: 500,
      before: async () => {
        large ??= await applicationOf(apps, Number(values.files))
        await sleep(retiredMs)
        return large
      },
      measure: commit(() => ({})),
      keeps: true,
    },
    unchanged: {
      title: `POST commit, one of ${values.files} files and an unchanged manifest with dependencies`,
      goal: 500,
      before: async () => {
        dependent ??= await applicationOf(apps, Number(values.files), lockedManifest('unchanged'))
        await sleep(retiredMs)
        return dependent
      },
      measure: commit(() => lockedManifest('unchanged')),
      keeps: true,
    },
  } satisfies Record<string, Row>
}

/** Before each measurement: deploys of a quiet host, which do not meet what the last one has left to do. */
const pauseMs = 3000

/** A deploy ends by retiring the version before, which holds up the next one of its application. */
const retiredMs = 5000

/** Uploads hold 20,000 files at most. */
async function applicationOf(apps: BenchApps, files: number, manifest: Record<string, string> = {}): Promise<BenchApp> {
  const app = await apps.deploy(manifest, newText())
  const perUpload = 10_000
  for (let from = 0; from < files; from += perUpload) {
    const names = Array.from(
      { length: Math.min(perUpload, files - from) },
      (_, n) => `data/${from}/${n % 100}/${n}.txt`,
    )
    const text = newText()
    await apps.commit(app, Object.fromEntries(names.map(name => [name, name])), text)
  }
  return app
}

async function beside(row: Row, apps: BenchApps, network: string): Promise<void> {
  const { title, goal, before, measure, keeps, floor = bareHello } = row
  const figures = await inTurn<'floor' | 'berth', number>(
    rounds,
    {
      async floor() {
        if (!floor) return 0
        await sleep(pauseMs)
        return floor(network)
      },
      async berth() {
        const app = await before?.()
        await sleep(pauseMs)
        const took = await measure(app)
        if (app && !keeps) await apps.remove(app)
        return took
      },
    },
    { warmUp: 2 }, // images, network, lane workers
  )
  const over = quantile(figures.berth, 0.5) - quantile(figures.floor, 0.5)
  const met = goal === null ? '' : `; ${verdict(`at most ${goal} ms`, over <= goal)}`
  console.log(title)
  if (floor) console.log(`  floor   ${reported(figures.floor)}`)
  console.log(`  berth   ${reported(figures.berth)}`)
  console.log(`  ${floor ? 'over the floor' : 'median'}   ${over.toFixed(0)} ms   (${rounds} rounds${met})`)
}

function bareHello(network: string): Promise<number> {
  const text = newText()
  return bareDeploy(network, program(text), text)
}

const reported = (times: readonly number[]): string =>
  `median ${quantile(times, 0.5).toFixed(0)} ms   p95 ${quantile(times, 0.95).toFixed(0)} ms`

if (values.help) console.log(usage)
else await bench()
