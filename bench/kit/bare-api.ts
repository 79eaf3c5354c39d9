import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import pg from 'pg'

/**
 * The floor of `bench/api.ts`: a bare Koa + pg server that does the same authentication, limit and look-up as one prepared
 * statement each, and nothing else. Takes the database's address; says its port over IPC.
 */
const pool = new pg.Pool({ connectionString: process.argv[2], max: 10 })
const app = new Koa()

app.use(async ctx => {
  const hash = createHash('sha256').update(ctx.get('authorization')).digest()
  const { rows: users } = await pool.query({
    name: 'user',
    text: `select u.id, u.plan from api_keys k join users u on u.id = k.user_id
            where k.hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) and u.blocked_at is null`,
    values: [hash],
  })
  if (!users[0]) {
    ctx.status = 401
    return
  }
  const { rows: counts } = await pool.query({
    name: 'limit',
    text: `insert into rate_limits as r (key, used, window_ends_at) values ($1, 1, now() + interval '60 s')
           on conflict (key) do update set
             used = case when r.window_ends_at <= now() then 1 else r.used + 1 end,
             window_ends_at = case when r.window_ends_at <= now() then excluded.window_ends_at else r.window_ends_at end
           returning used`,
    values: [`bare/${users[0].id}`],
  })
  if (counts[0].used > 1_000_000_000) {
    ctx.status = 429
    return
  }
  const { rows: apps } = await pool.query({
    name: 'app',
    text: 'select * from apps where id = $1 and owner_id = $2',
    values: [ctx.path.slice('/v2/apps/'.length), users[0].id],
  })
  const found = apps[0]
  if (!found) {
    ctx.status = 404
    return
  }
  ctx.body = {
    status: 'success',
    response: {
      id: found.id,
      name: found.name,
      owner: found.owner_id,
      cluster: found.host_id,
      ram: found.ram_mb,
      language: found.language,
      domain: found.subdomain && `${found.subdomain}.apps.localhost`,
      custom: found.custom_domain,
      created_at: found.created_at,
    },
  }
})

const server = createServer(app.callback()).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('disconnect', () => process.exit())
