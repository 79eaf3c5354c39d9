import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { isUnavailable } from '../../db/database.ts'
import { deploymentState, logAfter } from '../../db/deployment-history.ts'
import { readLog } from '../../db/deployments.ts'
import { ApiError } from '../../policy/errors.ts'
import type { Exchange } from '../call.ts'
import { type Call, endpoint } from '../endpoint.ts'
import { EventStream, wantsStream } from '../event-stream.ts'
import type { Parts } from '../parts.ts'
import { streamed } from '../respond.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'read' }>, 'app' | 'caller' | 'exchange'>

/** News that come thick are told together. */
const shortestPauseMs = 500
/** What one look reads: a client takes it before the next. */
const bytesAtOnce = 256 * 1024

/** Contract 13: the whole log, or a stream that follows it: frames `logs`, and a last `end` with the state. */
export const appsDeploymentLogs = endpoint({
  name: 'apps.deployments.logs',
  method: 'GET',
  path: '/v2/apps/{appId}/deployments/{deploymentId}/logs',
  summary: 'Read or follow the log of a deployment',
  auth: { scope: 'apps:read', permission: 'read' },
  response: z.object({ logs: z.string() }),
  errors: ['DEPLOYMENT_NOT_FOUND', 'REALTIME_MAX_CONNECTIONS', 'REALTIME_MAX_CONNECTIONS_APP'],
  async handle(call, parts) {
    const { app, exchange } = call
    const id = exchange.path.deploymentId ?? ''
    const state = /^[0-9a-f]{32}$/.test(id) ? await deploymentState(parts.db, app.id, id) : undefined
    if (!state) throw new ApiError('DEPLOYMENT_NOT_FOUND')
    if (!wantsStream(exchange)) return { logs: await readLog(parts.db, id) }
    // A stream like any other live one: it has one of their places.
    const lease = await parts.leases.take(call.caller.user.id, app.id)
    try {
      await follow(call, id, parts)
    } finally {
      await parts.leases.release(lease)
    }
    // Written already; the envelope is for the other form.
    return streamed as never
  },
})

/** Sends what is new until the deployment has ended, the client is gone, the right is lost or 10 minutes have passed. */
async function follow(call: AppCall, id: string, { db, access, deploymentNews, leases }: Parts): Promise<void> {
  const { app, exchange } = call
  const stream = new EventStream(exchange)
  const ended = new AbortController()
  const unwatch = access.watch(call, 'read', () => ended.abort())
  const over = AbortSignal.any([exchange.gone, ended.signal, AbortSignal.timeout(leases.longestMs)])
  let seq = lastSeen(exchange)
  const next = () => logAfter(db, id, seq, bytesAtOnce)
  while (!over.aborted) {
    // Before the look: what is announced while it lasts is looked for again.
    const announced = deploymentNews.news(id, leases.longestMs, over)
    try {
      // The state first: what was printed before it changed is then in what is read next.
      const state = await deploymentState(db, app.id, id)
      for (let news = await next(); news.length > 0; news = await next()) {
        stream.send({ event: 'logs', id: String(news.at(-1)!.seq), data: news.map(piece => piece.text).join('') })
        seq = news.at(-1)!.seq
        await stream.taken(over)
        if (over.aborted) break
      }
      if (over.aborted) break
      if (state === undefined || state === 'success' || state === 'error') {
        stream.send({ event: 'end', data: state ?? 'error' })
        break
      }
    } catch (error) {
      // A database that is away for a moment is asked again.
      if (!isUnavailable(error)) break
    }
    await sleep(shortestPauseMs, undefined, { signal: over }).catch(() => {})
    await announced
  }
  ended.abort()
  unwatch()
  stream.end()
}

function lastSeen({ request }: Exchange): number {
  const id = Number(request.headers['last-event-id'] ?? 0)
  return Number.isInteger(id) && id > 0 && id < 2 ** 31 ? id : 0
}
