import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import type { Logger } from 'pino'
import type { Analytics, Question } from '../../activities/analytics/port.ts'
import { MiB } from '../../lib/bytes.ts'
import { readCapped } from '../../lib/read-capped.ts'
import { sameText } from '../../lib/signed-text.ts'
import { Busy } from '../../policy/network/analytics-terms.ts'

export interface AnalyticsServerOptions {
  analytics: Analytics
  /** What `GET /state` answers. */
  state(): Promise<object>
  /** Receives the account of each application, by its id. */
  setAccounts(accounts: ReadonlyMap<string, string>): void
  /** Bearer token that API and worker send. */
  key: string
  port: number
  log: Pick<Logger, 'error'>
}

/** Larger than any question: filters are bounded. */
const maxQuestionBytes = 64 * 1024

/** About 300,000 applications. */
const maxAccountsBytes = 16 * MiB

/**
 * Serves questions of the API on loopback: `POST /ask` answers 200, or 503 with the reason when there is no answer now. `POST /accounts` of the worker
 * says whose applications are.
 */
export async function serveAnalytics(options: AnalyticsServerOptions): Promise<{ url: string; server: Server }> {
  const { analytics, key, log } = options
  const app = new Koa()
  app.on('error', error => log.error({ err: error }, 'analytics server'))
  app.use(async ctx => {
    if (!sameText(ctx.get('authorization'), `Bearer ${key}`)) {
      ctx.status = 401
      return
    }
    if (ctx.method === 'GET' && ctx.path === '/state') ctx.body = await options.state()
    if (ctx.method === 'POST' && ctx.path === '/accounts') {
      const body = await readCapped(ctx.req, maxAccountsBytes)
      if (body) options.setAccounts(new Map(JSON.parse(body.toString()) as [string, string][]))
      ctx.status = body ? 204 : 413
    }
    if (ctx.method !== 'POST' || ctx.path !== '/ask') return
    const left = new AbortController()
    ctx.res.once('close', () => left.abort())
    try {
      const body = await readCapped(ctx.req, maxQuestionBytes)
      ctx.status = 413
      if (!body) return
      const answer = await analytics.ask(JSON.parse(body.toString()) as Question, left.signal)
      ctx.status = 200
      ctx.body = answer
    } catch (error) {
      if (!(error instanceof Busy)) throw error
      ctx.status = 503
      ctx.body = error.message
    }
  })
  const server = createServer({ headersTimeout: 10_000, keepAliveTimeout: 30_000 }, app.callback())
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(options.port, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, server }
}
