import { setTimeout as sleep } from 'node:timers/promises'
import { unusedPort } from '../cli/installation/ports.ts'
import { temporalProcess } from '../cli/services/temporal.ts'
import { removeThrowAway, throwAwayFolder } from '../cli/test/test-postgres.ts'
import { openDatabase } from '../db/database.ts'
import { relayTo } from '../test/kit/servers/relay.ts'
import { Supervisor } from '../workers/supervisor/supervisor.ts'
import { answers, archiveForm, type Hello, helloApp } from './kit/hello.ts'
import { startPlatform } from './kit/platform.ts'
import { quantile, verdict } from './kit/sides.ts'

/**
 * Two bursts on a whole platform. First 20 concurrent archives of 1 MB, of two accounts, until each application answers, with a request of a
 * third account every 20 ms; goals: 60 s, and a p99 of 300 ms. Then 200 creations while Temporal is away, and the time from its return
 * until each has started; goals: every creation is answered 200, and 30 s.
 */
const archives = 20
const creations = 200
const MB = 1_000_000

const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
const temporalPort = await unusedPort()
await supervisor.start(await temporalProcess({ folder: null, port: temporalPort, uiPort: null }, () => {}))
const line = await relayTo({ host: '127.0.0.1', port: temporalPort })
const platform = await startPlatform({
  TEMPORAL_ADDRESS: `127.0.0.1:${line.port}`,
  HOST_MEMORY_MB: '65536',
  DISK_MB_PER_256MB: '128', // 200 applications fit on the disk of a small machine
})
const db = openDatabase({ url: platform.info.database_url, pool: 1 })
try {
  const [one, two, reader] = await Promise.all([
    platform.account('enterprise-64'),
    platform.account('enterprise-64'),
    platform.account('hobby-1'),
  ])
  const keys = [one, two] as [string, string]
  await remove(await create(await helloApp(), one), one) // images, networks, lanes
  await uploads(keys, reader)
  await withoutTemporal(keys)
} finally {
  await db.destroy()
  await platform.stop()
  await line.close()
  await supervisor.stop()
  removeThrowAway(folder)
}

async function uploads(keys: readonly [string, string], reader: string): Promise<void> {
  const apps = await Promise.all(Array.from({ length: archives }, () => helloApp({ bytes: MB })))
  const startedAt = performance.now()
  const done = new AbortController()
  const reading = latencies(reader, done.signal)
  const ids = await Promise.all(
    apps.map(async (app, index) => {
      const key = keys[index % 2]!
      const id = await create(app, key)
      await answers(platform, app, 300_000)
      return { id, key }
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  done.abort()
  const { times, refused } = await reading
  const p99 = quantile(times, 0.99)
  console.log(`${archives} archives of 1 MB at once`)
  console.log(`  the last answers   ${seconds.toFixed(1)} s   ${verdict('within 60 s', seconds <= 60)}`)
  const met = p99 <= 300 && refused === 0
  console.log(`  p99 of the API     ${p99.toFixed(0)} ms, ${refused} refused   ${verdict('at most 300 ms', met)}`)
  for (const { id, key } of ids) await remove(id, key)
}

/** Milliseconds of each of the requests that begin 20 ms apart. */
async function latencies(key: string, signal: AbortSignal): Promise<{ times: number[]; refused: number }> {
  const answered: Promise<number>[] = []
  let refused = 0
  for (; !signal.aborted; await sleep(20)) {
    const startedAt = performance.now()
    const request = platform.json('GET', '/v2/users/me', { key }).catch(() => refused++)
    answered.push(request.then(() => performance.now() - startedAt))
  }
  return { times: await Promise.all(answered), refused }
}

async function withoutTemporal(keys: readonly [string, string]): Promise<void> {
  await line.mode('cut')
  const ids: { id: string; key: string }[] = []
  for (let index = 0; index < creations; index += 10) {
    const apps = await Promise.all(Array.from({ length: 10 }, () => helloApp({ hasAddress: false })))
    ids.push(
      ...(await Promise.all(
        apps.map(async (app, at) => ({ id: await create(app, keys[at % 2]!), key: keys[at % 2]! })),
      )),
    )
  }
  const returnedAt = performance.now()
  await line.mode('pass')
  while ((await waiting(ids)) > 0 && performance.now() - returnedAt < 300_000) await sleep(200)
  const seconds = (performance.now() - returnedAt) / 1000
  console.log(`${creations} creations while Temporal is away`)
  console.log(`  answered           ${ids.length} with 200   ${verdict(`${creations}`, ids.length === creations)}`)
  console.log(
    `  the last starts    ${seconds.toFixed(1)} s after its return   ${verdict('within 30 s', seconds <= 30)}`,
  )
}

async function waiting(apps: readonly { id: string }[]): Promise<number> {
  const { rows } = await db.raw(
    `select count(*)::int as n from operations where target_id = any(?) and state in ('accepting', 'queued')`,
    [apps.map(({ id }) => id)],
  )
  return rows[0].n
}

async function create({ archive }: Hello, key: string): Promise<string> {
  return (await platform.json<{ id: string }>('POST', '/v2/apps', { key, body: archiveForm(archive) })).id
}

async function remove(id: string, key: string): Promise<void> {
  await platform.json('DELETE', `/v2/apps/${id}`, { key })
}
