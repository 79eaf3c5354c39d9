import { KiB } from '../../lib/bytes.ts'
import { autorestart } from '../timeouts.ts'

/** How hosts check applications that name a path for it (contract 5.21). */
export const healthChecks = {
  everySeconds: 10,
  /** A check without a complete answer after this has failed. */
  withinMs: 5000,
  /** Consecutive failures until an application counts as unhealthy. */
  failures: 3,
  healthyStatus: { from: 200, to: 399 },
  /** Checks that are open concurrently on one host, and of one account. */
  atOnce: 256,
  perAccount: 16,
  /** How much of an answer is read; more of its body is discarded unread. */
  headerBytes: 16 * KiB,
  bodyBytes: 64 * KiB,
  /** Interim answers (1xx) before the answer itself. */
  interimAnswers: 8,
  /** A check that had to wait for this long looks again where the application runs. */
  freshMs: 1000,
} as const

/** The health of an application's present run, as it is stored. */
export interface Health {
  status: 'healthy' | 'unhealthy'
  /** ISO 8601. */
  since: string
  /** What the check gave that made it unhealthy, as a sentence for people; null while it is healthy. */
  reason: string | null
}

/** The last restart of an application for its health. */
export interface HealthRestart {
  at: string
  reason: string
}

/** Whether an answer with this status says that the application works. Redirects do, and are not followed. */
export function isHealthyStatus(status: number): boolean {
  return status >= healthChecks.healthyStatus.from && status <= healthChecks.healthyStatus.to
}

export interface CheckState {
  status: Health['status'] | null
  /** Failures since the last success. */
  failures: number
}

/** What follows from one more check, which succeeded or not; `becomes` null: what is stored stays. */
export function judge(
  { status, failures: before }: CheckState,
  succeeded: boolean,
): { failures: number; becomes: Health['status'] | null; isDown: boolean } {
  const failures = succeeded ? 0 : before + 1
  const isDown = failures >= healthChecks.failures
  const now = succeeded ? 'healthy' : isDown ? 'unhealthy' : status
  return { failures, becomes: now === status ? null : now, isDown }
}

/** Whether a run has lasted long enough that AUTORESTART may end it (contract 5.11). */
export function ranLongEnough(startedAt: Date, at: Date): boolean {
  return at.getTime() - startedAt.getTime() > autorestart.ranSeconds * 1000
}

interface Checkable {
  status: string
  health_path: string | null
  health: Health | null
  health_restart: HealthRestart | null
}

/** The health of an application for people; null without a path to check. It is unknown until it is decided, and while nothing runs. */
export function healthOf({ status, health_path: path, health, health_restart: restarted }: Checkable) {
  if (path === null) return null
  const now = status === 'running' ? health : null
  const { since = null, reason = null } = now ?? {}
  return { path, status: now?.status ?? ('unknown' as const), since, reason, restarted }
}
