import { Readable } from 'node:stream'
import type { AppRow } from '../../../db/apps/apps.ts'
import { configTooLarge, maxConfigBytes } from '../../../policy/archives/archive-rules.ts'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError, type ErrorCode, isErrorCode } from '../../../policy/errors.ts'
import { limits } from '../../../policy/limits.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'
import { discard, storeUpload } from '../../uploads/uploads.ts'
import { queueCommit } from '../deploys/commits.ts'
import { outcomeOf } from './command.ts'

export interface ConfigRewrite {
  app: AppRow
  caller: Caller
  exchange: Exchange
  name: string
  content: Uint8Array
  /** Codes of the deployment that are answered unchanged. */
  codes: readonly ErrorCode[]
}

const limit = 'apps.files.write.config'

/**
 * Deploys a new configuration file as a commit of that one file, and waits for the outcome. Throws one of `codes`, else SAVE_FAILED
 * with the deployment's reason; the previous version then keeps running.
 */
export async function rewriteConfig(rewrite: ConfigRewrite, services: Services): Promise<void> {
  const { app, caller, exchange, name, content, codes } = rewrite
  const subject = {
    user: { id: caller.user.id, plan: caller.plan },
    appId: app.id,
    scale: services.config.rateLimitScale,
  }
  await services.limiter.admit(ownCounters(limit, limits[limit], subject))
  if (content.length > maxConfigBytes) throw new CodedError('FILE_TOO_LARGE', configTooLarge)
  const upload = await storeUpload(
    Readable.from(Buffer.from(content)),
    name,
    services,
    { ownerId: caller.user.id, unstored: 'SAVE_FAILED' },
    { signal: exchange.signal },
  )
  try {
    await queueCommit({ upload, folder: '', app, caller }, exchange.headers, services)
  } finally {
    // Attached segments stay: only an unreferenced one can be discarded.
    await discard(services, upload)
  }
  const outcome = await outcomeOf(exchange.headers['X-Operation-Id']!, exchange.signal, services)
  if (outcome?.state === 'success') return
  if (!outcome)
    throw new CodedError(
      'SAVE_FAILED',
      'The deployment is still running; the list of deployments will show its outcome.',
    )
  const message = outcome.message ?? undefined
  if (outcome.code && isErrorCode(outcome.code) && codes.includes(outcome.code))
    throw new CodedError(outcome.code, message)
  throw new CodedError('SAVE_FAILED', `The deployment failed with ${outcome.code}. ${message ?? ''}`.trim())
}
