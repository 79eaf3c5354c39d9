import type { ChildProcess } from 'node:child_process'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../cli/test-postgres.ts'
import { createUser } from '../db/accounts.ts'
import { type Db, openDatabase } from '../db/database.ts'
import { setWebhook } from '../db/webhooks.ts'
import { newAppId } from '../policy/ids.ts'
import { sealKeys } from '../policy/seal.ts'
import { newWebhookAddress } from '../policy/webhooks/addresses.ts'
import { Supervisor } from '../workers/supervisor.ts'
import { sendAtPace, type Target } from './deliveries.ts'
import { startApi, startProgram } from './programs.ts'
import { seedApp, seedHost } from './seeds.ts'

/**
 * A push until its 200, at 50 per second and as a burst of 500 at once, which must be answered within 10 s, beside a bare
 * Koa + pg server that verifies the same push and inserts the same three rows in one transaction. In turn, in one run, on one
 * Postgres. Goal: p99 at most 3 times the bare server's.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 10)
const masterKey = 'ab'.repeat(32)
const secret = 'bench secret'
const webhooks = 20

const folder = throwAwayFolder()
const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
const children: ChildProcess[] = []
try {
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {})
  const url = new URL(adminUrl)
  url.pathname = `/${templateDatabase}`
  const db = openDatabase({ url: url.href, pool: 2 })
  const paths = { bare: await seed(db), ours: await seed(db) }
  const { child, told } = await startProgram<{ port: number }>('./bare-webhook.ts', [url.href, secret])
  children.push(child)
  const api = await startApi({ databaseUrl: url.href, masterKey, folder })
  children.push(api.child)
  const servers = { bare: `http://127.0.0.1:${told.port}`, ours: api.url }
  const targets = (who: 'bare' | 'ours'): Target[] => paths[who].map(path => ({ url: servers[who] + path, secret }))
  const loads = { '50 per second': [50, seconds], '500 at once': [100_000, 0.005] } as const
  for (const [name, [perSecond, forSeconds]] of Object.entries(loads)) {
    const figures = { bare: [] as number[], ours: [] as number[] }
    for (let round = -1; round < rounds; round++)
      for (const who of ['bare', 'ours'] as const) {
        const answers = await sendAtPace(targets(who), perSecond, forSeconds)
        if (round >= 0) figures[who].push(...answers)
      }
    report(name, figures)
  }
  const { rows } = await db.raw(`select count(*)::int as n from webhook_deliveries w
    join deployments d on d.id = w.deployment_id join operations o on o.id = d.operation_id`)
  console.log(`rows            ${rows[0].n} deliveries with deployment and operation: one for each 200`)
  await db.destroy()
} finally {
  for (const child of children) child.kill('SIGKILL')
  await supervisor.stop()
  removeThrowAway(folder)
}

function report(name: string, figures: Record<'bare' | 'ours', number[]>): void {
  const at = (values: number[], share: number) =>
    [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN
  console.log(`${name}, ${figures.ours.length} answers`)
  for (const [who, values] of Object.entries(figures))
    console.log(`  ${who.padEnd(14)}p50 ${at(values, 0.5).toFixed(1)} ms   p99 ${at(values, 0.99).toFixed(1)} ms`)
  console.log(`  ratio of p99  ${(at(figures.ours, 0.99) / at(figures.bare, 0.99)).toFixed(2)}`)
}

/** Paths of the webhooks of that many applications. */
async function seed(db: Db): Promise<string[]> {
  await seedHost(db)
  const user = await createUser(db, { name: 'Bench', email: `${newAppId()}@example.org`, plan: 'enterprise-32' })
  const paths: string[] = []
  for (let i = 0; i < webhooks; i++) {
    const appId = await seedApp(db, user.id)
    paths.push(
      `/v2/git/webhook/${await setWebhook(db, sealKeys(masterKey), { appId, address: newWebhookAddress(masterKey), token: 'x', secret })}`,
    )
  }
  return paths
}
