import { z } from 'zod'
import { isUnavailable } from '../../../db/database.ts'
import { type LogPiece, readDeploymentState, readLogAfter } from '../../../db/deploys/deployment-history.ts'
import { takeSlotLease } from '../../../db/slot-leases.ts'
import { pause } from '../../../lib/async/loop.ts'
import { deadlineSignal } from '../../../lib/async/timeout.ts'
import { deploymentLogs } from '../../../policy/apps/deployment-logs.ts'
import { CodedError } from '../../../policy/errors.ts'
import { followedLogs, wholeLogs } from '../../../policy/limits.ts'
import { EventStream, wantsStream } from '../../http/event-stream.ts'
import type { Exchange } from '../../http/exchange.ts'
import { streamed } from '../../http/respond.ts'
import { streamSuccess } from '../../http/streamed-answer.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { withLease } from '../../uploads/blob-leases.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'read' }>, 'app' | 'caller' | 'exchange'>

/** Output that arrives within this time is sent together. */
const minPauseMs = 500

/** Contract 6.5: the whole log, or a stream that follows it: events `logs`, and a final `end` with the state. */
export const getDeploymentLog = endpoint({
  name: 'apps.deployments.logs',
  method: 'GET',
  path: '/v2/apps/{appId}/deployments/{deploymentId}/logs',
  summary: 'Read or follow the log of a deployment',
  auth: { scope: 'apps:read', permission: 'read' },
  response: z.object({ logs: z.string() }),
  stream: {
    events: 'With `Accept: text/event-stream`: events `logs`, and a final `end` with the state of the deployment.',
    resumes: true,
  },
  errors: ['DEPLOYMENT_NOT_FOUND'],
  async handle(call, services) {
    const { app, exchange } = call
    const id = exchange.path.deploymentId ?? ''
    const state = /^[0-9a-f]{32}$/.test(id) ? await readDeploymentState(services.db, app.id, id) : undefined
    if (!state) throw new CodedError('DEPLOYMENT_NOT_FOUND')
    if (!wantsStream(exchange)) return whole(call, id, services)
    const { perUser } = followedLogs
    const max = Math.max(1, Math.floor(perUser * services.config.rateLimitScale))
    const lease = await takeSlotLease(services.db, `followed-log/${call.caller.user.id}`, max)
    if (!lease)
      throw new CodedError(
        'KEEP_CALM',
        `An account can follow ${max} logs at the same time. Close one of them or wait.`,
      )
    await withLease(services, lease, () => follow(call, id, services))
    // The stream is written; the envelope is for the whole log.
    return streamed as never
  },
})

const accountFull = `An account can read ${wholeLogs.perSubject} logs at the same time. Close one of them or wait.`
const allTaken = 'Too many logs are being read by other accounts. Try again in a minute, or follow the log instead.'

/** The current log, in pieces: a slow reader takes the memory of one piece and of what its connection buffers. */
async function whole({ caller, exchange }: AppCall, id: string, { db, logSlots }: Services): Promise<never> {
  const deadline = deadlineSignal(wholeLogs.waitSeconds * 1000, exchange.signal)
  const leave = await logSlots.enterUntil(caller.user.id, deadline).catch(() => {
    throw new CodedError('KEEP_CALM', logSlots.isFull(caller.user.id) ? accountFull : allTaken)
  })
  try {
    const after = (seq: number) => readLogAfter(db, id, seq, deploymentLogs.sentBytes)
    // The first read precedes the answer, so that an unavailable database still has its own status.
    return await streamSuccess(exchange, wholeJson(await after(0), after))
  } finally {
    leave()
  }
}

/** `{"logs": ...}` in pieces of JSON text; up to `deploymentLogs.wholeBytes` of a log that keeps growing. */
async function* wholeJson(
  first: readonly LogPiece[],
  after: (seq: number) => Promise<readonly LogPiece[]>,
): AsyncGenerator<string> {
  yield '{"logs":"'
  let left: number = deploymentLogs.wholeBytes
  for (let pieces = first; pieces.length > 0; pieces = left > 0 ? await after(pieces.at(-1)!.seq) : []) {
    let text = ''
    for (const piece of pieces) {
      left -= Buffer.byteLength(piece.text)
      if (left >= 0) text += piece.text
    }
    yield JSON.stringify(text).slice(1, -1)
  }
  yield '"}'
}

/** Sends new output until the deployment has ended, the client disconnects, the caller loses the right or 10 minutes have passed. */
async function follow(
  call: AppCall,
  id: string,
  { db, access, deploymentNotifications, leases }: Services,
): Promise<void> {
  const { app, exchange } = call
  const stream = new EventStream(exchange)
  const ended = new AbortController()
  const unwatch = access.watch(call, 'read', () => ended.abort())
  const over = deadlineSignal(leases.maxMs, exchange.signal, ended.signal)
  let seq = lastSeen(exchange)
  const next = () => readLogAfter(db, id, seq, deploymentLogs.sentBytes)
  while (!over.aborted) {
    // Subscribed before the read, so that nothing that is announced meanwhile is missed.
    const announced = deploymentNotifications.next(id, leases.maxMs, over)
    try {
      // The state first: output that was printed before it changed is then in what is read next.
      const state = await readDeploymentState(db, app.id, id)
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
      // While the database is unavailable the query is repeated.
      if (!isUnavailable(error)) break
    }
    await pause(minPauseMs, over)
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
