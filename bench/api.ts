import type { ChildProcess } from 'node:child_process'
import autocannon from 'autocannon'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../cli/test-postgres.ts'
import { createKey, createUser } from '../db/accounts.ts'
import { openDatabase } from '../db/database.ts'
import { Supervisor } from '../workers/supervisor.ts'
import { summary } from './platform.ts'
import { startApi, startProgram } from './programs.ts'
import { seedApp, seedHost } from './seeds.ts'

/**
 * Authenticated GET /v2/apps/{appId} at 50 connections, beside a bare Koa + pg server that does the same authentication and
 * limit work as one statement each. Both in turn, in one run, on one machine and one Postgres. Goal: 70 % of the bare server.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 8)
const masterKey = 'ab'.repeat(32)

const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
const children: ChildProcess[] = []
try {
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {})
  const url = new URL(adminUrl)
  url.pathname = `/${templateDatabase}`
  const { key, appId } = await seed(url.href)
  const { child, told } = await startProgram<{ port: number }>('./bare-api.ts', [url.href])
  children.push(child)
  const bare = `http://127.0.0.1:${told.port}`
  const api = await startApi({ databaseUrl: url.href, masterKey, folder })
  children.push(api.child)
  const ours = api.url
  const figures = { bare: [] as number[], ours: [] as number[], p99: [] as number[] }
  for (let round = -1; round < rounds; round++) {
    const floor = await load(bare, key, appId)
    const found = await load(ours, key, appId)
    if (round < 0) continue // warming up
    figures.bare.push(floor.requests.average)
    figures.ours.push(found.requests.average)
    figures.p99.push(found.latency.p99)
  }
  const [floor, found] = [summary(figures.bare).median, summary(figures.ours).median]
  console.log(`bare Koa + pg   ${floor.toFixed(0)} requests/s`)
  console.log(`Berth           ${found.toFixed(0)} requests/s   p99 ${summary(figures.p99).median} ms`)
  console.log(
    `ratio           ${((found / floor) * 100).toFixed(0)} %   (${rounds} rounds of ${seconds} s, 50 connections)`,
  )
} finally {
  for (const child of children) child.kill('SIGKILL')
  await supervisor.stop()
  removeThrowAway(folder)
}

async function seed(url: string): Promise<{ key: string; appId: string }> {
  const db = openDatabase({ url, pool: 1 })
  const user = await createUser(db, { name: 'Bench', email: 'bench@example.org', plan: 'enterprise-32' })
  const { key } = await createKey(db, masterKey, { userId: user.id })
  await seedHost(db)
  const appId = await seedApp(db, user.id, 'bench')
  await db.destroy()
  return { key, appId }
}

async function load(base: string, key: string, appId: string): Promise<autocannon.Result> {
  const result = await autocannon({
    url: `${base}/v2/apps/${appId}`,
    connections: 50,
    duration: seconds,
    headers: { authorization: key },
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${result.non2xx} answers were not 200, ${result.errors} failed`)
  return result
}
