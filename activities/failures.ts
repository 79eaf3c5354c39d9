import { Context, cancellationSignal, heartbeat } from '@temporalio/activity'
import { ApplicationFailure, CancelledFailure, TemporalFailure } from '@temporalio/common'
import { NoSpaceLeft } from '../lib/folders/no-space-left.ts'
import { withoutFolders } from '../lib/without-folders.ts'
import { CodedError } from '../policy/errors.ts'
import { ArchiveRefused } from './archives/port.ts'
import { ImageOnItsWay } from './containers/image-wait.ts'
import { HostUnreachable, ImageUnavailable, PortTaken } from './containers/port.ts'
import { BodyNotFound } from './objects/port.ts'
import { OverlayRefused } from './overlay/port.ts'
import { PlacementRefused } from './placement/port.ts'
import { SnapshotCorrupt, SnapshotRefused } from './snapshots/port.ts'
import { VolumeLost } from './volumes/port.ts'

/** A failure with a catalogue code that a retry cannot fix. */
export function refusal(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code)
}

/** Does work whose refusals with a code of the catalogue no retry could change. */
export const refusing = <T>(work: Promise<T>): Promise<T> =>
  work.catch(error => {
    throw error instanceof CodedError ? refusal(error.code, error.message) : error
  })

/** Whether an error is a failure with this code. */
export const isRefusal = (error: unknown, code: string): boolean =>
  error instanceof ApplicationFailure && error.type === code

/** Gives an outside error its catalogue code. Transient errors stay retryable. */
export function withCode(error: unknown): unknown {
  if (error instanceof ApplicationFailure) return error
  if (error instanceof ArchiveRefused) return refusal(error.code, error.message)
  if (error instanceof SnapshotRefused) return refusal('ACTION_FAILED', error.message)
  if (error instanceof SnapshotCorrupt) return refusal('SNAPSHOT_CORRUPT', error.message)
  if (error instanceof NoSpaceLeft) return refusal('CONTAINER_INSUFFICIENT_DISK_SPACE', error.message)
  if (error instanceof PortTaken) return refusal('CONTAINER_NETWORK_CONFLICT', error.message)
  if (error instanceof VolumeLost) return refusal('ACTION_FAILED', error.message)
  if (error instanceof OverlayRefused) return refusal('DEPLOY_FAILED', error.message)
  if (error instanceof PlacementRefused) return refusal('DEPLOY_FAILED', error.message)
  if (error instanceof ImageUnavailable) return refusal('DEPLOY_FAILED', withoutFolders(error.message))
  if (error instanceof BodyNotFound)
    return refusal('DEPLOY_FAILED', 'The uploaded archive is no longer in the object store.')
  if (error instanceof HostUnreachable) return ApplicationFailure.retryable(error.message, 'ACTION_FAILED')
  // The next attempt comes so late that a command ends with this message instead of a timeout.
  if (error instanceof ImageOnItsWay)
    return ApplicationFailure.create({ message: error.message, type: 'ACTION_FAILED', nextRetryDelay: '5s' })
  if (!(error instanceof Error) || error instanceof TemporalFailure) return error
  // The owner reads this with the operation; operators find the full error in the run.
  return ApplicationFailure.create({ message: withoutFolders(error.message), type: error.name, cause: error })
}

/** As `withCode`, for an engine of a database: what its host lacks for its start may be there later, so that retries can fix it, as undos do. */
export function withEngineCode(error: unknown): unknown {
  const lacks = [NoSpaceLeft, PortTaken, VolumeLost, ImageUnavailable].some(Kind => error instanceof Kind)
  const failure = withCode(error)
  if (!lacks || !(failure instanceof ApplicationFailure)) return failure
  return ApplicationFailure.retryable(failure.message, failure.type)
}

/** What attempts have reported to their lanes. */
const reported = new WeakMap<Context, unknown>()

/**
 * Reports an effect of this activity to its lane, whatever comes after it: a failure carries it in its details, and a timeout in its last
 * heartbeat. Later attempts pass it on, until they report something else.
 */
export function reportToLane(effect: unknown): void {
  reported.set(Context.current(), effect)
  heartbeat(effect)
}

/** Interval of heartbeats. */
export const beatMs = 2000

/**
 * Wraps every activity of a host: errors get their catalogue codes, heartbeats show that the process lives (and deliver
 * requests to cancel) and carry what was reported, and a cancelled activity ends as cancelled.
 */
// biome-ignore lint/suspicious/noExplicitAny: activities of a group differ in their arguments
export function hosted<T extends Record<string, (...args: any[]) => Promise<unknown>>>(group: T, coded = withCode): T {
  const wrapped = Object.entries(group).map(([name, activity]) => [
    name,
    async (...args: unknown[]) => {
      const context = Context.current()
      const progress = () => reported.get(context) ?? context.info.heartbeatDetails
      const timer = setInterval(() => heartbeat(progress()), beatMs)
      try {
        return await activity(...args)
      } catch (error) {
        if (cancellationSignal().aborted) throw new CancelledFailure(`${name} was cancelled`)
        const failure = coded(error)
        if (!progress() || !(failure instanceof ApplicationFailure)) throw failure
        throw ApplicationFailure.fromError(failure, { details: [progress()] })
      } finally {
        clearInterval(timer)
      }
    },
  ])
  return Object.fromEntries(wrapped)
}
