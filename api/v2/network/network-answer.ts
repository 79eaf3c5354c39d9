import { z } from 'zod'
import type { Answers, Question } from '../../../activities/analytics/port.ts'
import { findUser } from '../../../db/accounts/accounts.ts'
import type { AppRow } from '../../../db/apps/app-rows.ts'
import { includesNetworkDetails, planOf } from '../../../policy/accounts/plans.ts'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import { limits } from '../../../policy/limits.ts'
import { Busy, busyRetrySeconds } from '../../../policy/network/analytics-terms.ts'
import { existingWindow, requestedWindow, windowName } from '../../../policy/network/windows.ts'
import type { Exchange } from '../../http/exchange.ts'
import { JsonText } from '../../http/respond.ts'
import { isoTime } from '../../pipeline/fields.ts'
import type { Services } from '../../services.ts'

const end = z.string({ error: 'INVALID_TIME_RANGE' }).optional().meta({ openapi: isoTime.meta()?.openapi })

/** The window of a question: the last 24 hours, or 24 hours from the end that is given; at most 7 days. */
export const windowFields = { start: end, end }

/** When an answer that is given again was computed. */
export const cachedAt = isoTime.optional()

/** Instead of an answer, for a window that ends before the application existed. */
export const beforeTheApp = z.strictObject({})

/** What every endpoint of a question may throw. */
export const questionErrors = ['INVALID_TIME_RANGE', 'ANALYTICS_BUSY'] as const

type Kind = Question['kind']

interface Asked<K extends Kind> {
  app: AppRow
  window: { start?: string | undefined; end?: string | undefined }
  exchange: Exchange
  /** What the question says beyond application and window. */
  details: Omit<Extract<Question, { kind: K }>, 'appId' | 'ownerId' | 'window'>
  /** The code of a defect. */
  failure: ErrorCode
  view?(answer: Answers[K]): unknown
}

/** Answers a question about an application; one that was answered a moment ago, or cannot be answered now, with an earlier answer that says when it was computed. */
export async function networkAnswer<K extends Kind>(
  { app, window, exchange, details, failure, view = answer => answer }: Asked<K>,
  services: Services,
): Promise<JsonText> {
  const now = Date.now()
  const requested = requestedWindow(window, now)
  const existing = existingWindow(requested, app.created_at.getTime())
  if (!existing) return new JsonText(details.kind === 'logs' ? '[]' : '{}')
  const question = { ...details, appId: app.id, ownerId: app.owner_id, window: existing } as Extract<
    Question,
    { kind: K }
  >
  const compute = async () => {
    await countMiss(app, services)
    const answer = await services.analytics.ask(question).catch(error => {
      if (error instanceof Busy) throw error
      services.log.error({ err: error, appId: app.id, kind: details.kind }, 'a question about requests failed')
      throw new CodedError(failure)
    })
    return view(answer as Answers[K])
  }
  const key = JSON.stringify([app.id, details, windowName(requested, now)])
  const given = await services.networkAnswers.of(app.owner_id, key, compute).catch(error => {
    throw error instanceof Busy ? new CodedError('ANALYTICS_BUSY', error.message, busyRetrySeconds) : error
  })
  if (!given.cachedAt) return new JsonText(given.text)
  const date = given.cachedAt.toISOString()
  exchange.headers['X-Cached-At'] = date
  return new JsonText(given.text.startsWith('{') ? `{"cached_at":"${date}",${given.text.slice(1)}` : given.text)
}

/** Only questions that reach the engine count, for the owner of the application, also if a member asks. */
async function countMiss({ owner_id: id }: AppRow, { limiter, config }: Services): Promise<void> {
  const name = 'apps.network.misses'
  await limiter.admit(ownCounters(name, limits[name], { user: { id }, scale: config.rateLimitScale }))
}

/** Throws UPGRADE_REQUIRED unless the plan of the application's owner includes log lines and latencies. */
export async function demandNetworkDetails({ owner_id: id }: AppRow, { db, plans }: Services): Promise<void> {
  const owner = await findUser(db, id)
  if (owner && includesNetworkDetails(planOf(plans, owner, new Date()).name)) return
  throw new CodedError('UPGRADE_REQUIRED', 'Log lines and latencies of requests come with the plan Pro.')
}
