import autocannon from 'autocannon'
import { createKey, createUser } from '../db/accounts/accounts.ts'
import { openDatabase } from '../db/database.ts'
import { seedApp, seedHost } from './kit/seeds.ts'
import { inTurn, quantile, verdict, withSides } from './kit/sides.ts'

/**
 * Authenticated GET /v2/apps/{appId} at 50 connections, compared with a bare Koa + pg server that does the same authentication and
 * limit work as one statement each. In turn, in one run, on one machine and one Postgres. Goal: 70 % of the bare server.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 8)

await withSides(async ({ databaseUrl, masterKey, bare, berth }) => {
  const { key, appId } = await seed(databaseUrl, masterKey)
  const urls = { bare: await bare('./bare-api.ts'), berth: (await berth()).url }
  const figures = await inTurn(rounds, {
    bare: () => load(urls.bare, key, appId),
    berth: () => load(urls.berth, key, appId),
  })
  const perSecond = (side: autocannon.Result[]) =>
    quantile(
      side.map(({ requests }) => requests.average),
      0.5,
    )
  const [floor, found] = [perSecond(figures.bare), perSecond(figures.berth)]
  const p99 = quantile(
    figures.berth.map(({ latency }) => latency.p99),
    0.5,
  )
  console.log(`bare Koa + pg   ${floor.toFixed(0)} requests/s`)
  console.log(`Berth           ${found.toFixed(0)} requests/s   p99 ${p99} ms`)
  console.log(
    `ratio           ${((found / floor) * 100).toFixed(0)} %   (${rounds} rounds of ${seconds} s, 50 connections; ${verdict('at least 70 %', found >= 0.7 * floor)})`,
  )
})

async function seed(url: string, masterKey: string): Promise<{ key: string; appId: string }> {
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
