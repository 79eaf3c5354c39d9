import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import pg from 'pg'

/**
 * The floor of `bench/webhook.ts`: a bare Koa + pg server that verifies a push, looks its webhook up, and inserts operation,
 * deployment and delivery in one transaction, and nothing else. Takes the database's address; says its port over IPC.
 */
const pool = new pg.Pool({ connectionString: process.argv[2], max: 10 })
const secret = process.argv[3] ?? ''
const app = new Koa()
const id = (): string => randomBytes(16).toString('hex')

app.use(async ctx => {
  const chunks: Buffer[] = []
  for await (const chunk of ctx.req) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
  const given = Buffer.from(ctx.get('x-hub-signature-256'))
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    ctx.status = 401
    return
  }
  const push = JSON.parse(body.toString())
  const hash = createHash('sha256').update(ctx.path.split('/').at(-1)!).digest()
  const client = await pool.connect()
  try {
    const { rows } = await client.query({
      name: 'hook',
      text: 'select w.id, w.app_id, a.owner_id from git_webhooks w join apps a on a.id = w.app_id where w.address_hash = $1',
      values: [hash],
    })
    const { id: webhook, app_id, owner_id } = rows[0]
    const [operation, deployment] = [id(), id()]
    await client.query('begin')
    await client.query({
      name: 'operation',
      text: `insert into operations (id, target_id, kind, owner_id, actor) values ($1, $2, 'deploy', $3, $3)`,
      values: [operation, app_id, owner_id],
    })
    await client.query({
      name: 'deployment',
      text: `insert into deployments (id, app_id, operation_id, release, source, revision, owner_id, clone_url, branch, trigger)
             values ($1, $2, $3, 1, 'git', $4, $5, $6, $7, 'webhook')`,
      values: [deployment, app_id, operation, push.after, owner_id, push.repository.clone_url, push.ref.slice(11)],
    })
    await client.query({
      name: 'delivery',
      text: `insert into webhook_deliveries (id, app_id, source, delivery_id, provider, event, branch, commit, verdict, reply_status, reply_text, deployment_id)
             values ($1, $2, $3, $4, 'github', 'push', $5, $6, 'queued', 200, 'queued', $7)`,
      values: [
        id(),
        app_id,
        `webhook:${webhook}`,
        ctx.get('x-github-delivery'),
        push.ref.slice(11),
        push.after,
        deployment,
      ],
    })
    await client.query('commit')
    ctx.body = `queued: deployment ${deployment}`
  } finally {
    client.release()
  }
})

const server = createServer(app.callback()).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('disconnect', () => process.exit())
