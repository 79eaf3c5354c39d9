import { createUser } from '../db/accounts/accounts.ts'
import { type Db, openDatabase } from '../db/database.ts'
import { setWebhook } from '../db/git/webhooks.ts'
import { newWebhookAddress } from '../policy/git/webhooks/addresses.ts'
import { newAppId } from '../policy/ids.ts'
import { sealKeys } from '../policy/seal.ts'
import { type Delivery, sendAtPace, type Target } from './kit/deliveries.ts'
import { seedApp, seedHost } from './kit/seeds.ts'
import { inTurn, quantile, verdict, withSides } from './kit/sides.ts'

/**
 * A push until its 200, at 50 per second and as a burst of 500 at once, which must be answered within 10 s, compared with a bare
 * Koa + pg server that verifies the same push and inserts the same three rows in one transaction. In turn, in one run, on one
 * Postgres. Goal: p99 at most 2 times the bare server's.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 10)
const secret = 'bench secret'
const webhooks = 20
const burstSeconds = 10

await withSides(async ({ databaseUrl, masterKey, bare, berth }) => {
  const db = openDatabase({ url: databaseUrl, pool: 2 })
  const paths = { bare: await seed(db, masterKey), berth: await seed(db, masterKey) }
  const servers = { bare: await bare('./bare-webhook.ts', [secret]), berth: (await berth()).url }
  const targets = (side: Side): Target[] => paths[side].map(path => ({ url: servers[side] + path, secret }))
  const loads = { '50 per second': [50, seconds], '500 at once': [100_000, 0.005] } as const
  for (const [name, [perSecond, forSeconds]] of Object.entries(loads)) {
    const load = (side: Side) => () => sendAtPace(targets(side), perSecond, forSeconds)
    const figures = await inTurn(rounds, { bare: load('bare'), berth: load('berth') })
    report(name, { bare: figures.bare.flat(), berth: figures.berth.flat() })
  }
  const { rows } = await db.raw(`select count(*)::int as n from webhook_deliveries w
    join deployments d on d.id = w.deployment_id join operations o on o.id = d.operation_id`)
  console.log(`rows            ${rows[0].n} deliveries with deployment and operation, of both sides and all rounds`)
  await db.destroy()
})

type Side = 'bare' | 'berth'

function report(name: string, figures: Record<Side, Delivery[]>): void {
  console.log(`${name}, ${figures.berth.length} answers`)
  const ms = (side: Side) => figures[side].map(answer => answer.ms)
  for (const side of ['bare', 'berth'] as const) {
    const values = ms(side)
    const refused = figures[side].filter(({ stored }) => !stored).length
    console.log(
      `  ${side.padEnd(14)}p50 ${quantile(values, 0.5).toFixed(1)} ms   p99 ${quantile(values, 0.99).toFixed(1)} ms   ${refused} refused (${verdict('0', refused === 0)})`,
    )
  }
  const ratio = quantile(ms('berth'), 0.99) / quantile(ms('bare'), 0.99)
  console.log(`  ratio of p99  ${ratio.toFixed(2)}   ${verdict('at most 2', ratio <= 2)}`)
  const longest = Math.max(...ms('berth')) / 1000
  console.log(
    `  the last      ${longest.toFixed(1)} s   ${verdict(`within ${burstSeconds} s`, longest < burstSeconds)}`,
  )
}

/** Paths of the webhooks of that many applications. */
async function seed(db: Db, masterKey: string): Promise<string[]> {
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
