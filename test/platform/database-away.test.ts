import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { ensureDatabase, postgresProcess, postgresUrl } from '../../cli/services/postgres.ts'
import { removeThrowAway, throwAwayFolder } from '../../cli/test/test-postgres.ts'
import { migrate, openDatabase } from '../../db/database.ts'
import { listHosts } from '../../db/hosts/hosts.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import type { Entry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { slowProgram } from '../kit/programs.ts'

// A Postgres of its own, for this one is stopped and started.
const folder = throwAwayFolder()
let supervisor: Supervisor
let port: number

async function startPostgres(): Promise<void> {
  supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  const cluster = { folder: `${folder}/postgres`, port, password: 'test', durable: true, maxConnections: 100 }
  await supervisor.start(await postgresProcess(cluster, () => {}))
}

async function ownDatabase() {
  port = await unusedPort()
  await startPostgres()
  await ensureDatabase(postgresUrl(port, 'test', 'postgres'), 'berth')
  const url = postgresUrl(port, 'test', 'berth')
  const db = openDatabase({ url, pool: 10 })
  await migrate(db)
  return { db, url }
}

const started = testPlatform({ database: ownDatabase })
let api: Entry

test.after.always('end what is left', async () => {
  await api?.kill('SIGKILL')
  await (await started).db.destroy()
  await supervisor.stop()
  removeThrowAway(folder)
})

test.serial('Postgres is down for 20 s, while idle and during a creation', async t => {
  t.timeout(170_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const process = await platform.startApiProcess()
  api = process.api
  const ask = async () => {
    const startedAt = performance.now()
    const answer = await fetch(`${process.url}/v2/users/me`, { headers: { authorization: ana.key } })
    const body = (await answer.json()) as { code?: string }
    return { status: answer.status, code: body.code, ms: performance.now() - startedAt }
  }
  const away = async (during: string) => {
    await supervisor.stop()
    const until = Date.now() + 20_000
    while (Date.now() < until) {
      const { status, code, ms } = await ask()
      t.deepEqual({ status, code }, { status: 503, code: 'DATABASE_UNAVAILABLE' }, during)
      t.true(ms < 3000, `${during}: 503 after ${ms} ms`)
      await sleep(500)
    }
    await startPostgres()
    const back = Date.now()
    await platform.until(async () => (await ask()).status === 200, 5, `served again, ${during}`)
    t.log(`${during}: served again after ${Date.now() - back} ms`)
    const reachable = async () => (await listHosts(platform.db))[0]?.reachable
    await platform.until(reachable, 30, 'the host is seen again')
  }
  t.is((await ask()).status, 200)
  await away('idle')
  const app = await platform.upload(ana, slowProgram('it came through', 5))
  t.is(app.status, 200, app.text)
  await platform.until(
    async () => (await platform.remains()).containers.includes(`berth-${app.id}-1-build`),
    20,
    'it is being built',
  )
  await away('during a creation')
  t.like(await platform.ended(app.operationId), { state: 'success', code: null })
  await platform.serves(app.domain, 'it came through')
  t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])
  t.is(api.child.exitCode, null, 'the API was never restarted')
})
