import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import type { OperationFacts } from '../../db/operations/operation-facts.ts'
import type { OperationKind } from '../../db/operations/operation-kinds.ts'
import { type StepName, stepKinds } from '../../policy/apps/step-kinds.ts'
import { refusal } from '../failures.ts'
import { type DecisionOptions, releaseBrought, releaseServing } from '../releases/decision.ts'
import type { Release, StepOf } from '../releases/release.ts'
import type { AppLocks } from './app-locks.ts'
import { assertCurrentClaim, claimOfActivity, lostClaim } from './claims.ts'
import { factsOfStep } from './step-facts.ts'

export interface GuardedStepsOptions extends DecisionOptions {
  db: Db
  locks: AppLocks
  traits: { id: string }
  /** Rejects when another process is this host now, according to Postgres. */
  confirm?(): Promise<void>
}

/** A step of an operation according to Postgres: only the ids of its input were trusted, and they match. */
export interface Step {
  operationId: string
  kind: OperationKind
  appId: string
  ownerId: string
  /** Whether the operation still runs. */
  running: boolean
  /** The application is deleted: nothing of it is left but what lies at its host. */
  isDeleted: boolean
  /** The release that the operation brings. Rejects when it brings none, or the step names another. */
  brought(): Release
  /** The release that serves. Rejects when the step, or `number`, names another. */
  serving(number?: number): Release
  /** The release that serves now, whatever the step names. Rejects when the application is deleted. */
  served(): Release
  /** The named release, to be stopped or removed. Rejects when the operation has ended and this release serves. */
  spent(): Pick<Release, 'appId' | 'number'>
}

/** While the operation runs; also after it has ended; or also for a step that was given up. */
type Allowed = 'now' | 'after' | 'late'

/**
 * Steps of operations at their host, and the locks of their applications. Of a step's input only ids are trusted, and those only
 * when its run of a lane holds this operation, of a kind that has such a step, of an application of this host: everyone who reaches
 * Temporal can request any step, with any input. A step that was given up waits for its lock like others, and then does nothing.
 */
export function guardedSteps(options: GuardedStepsOptions) {
  const { db, locks, confirm, traits } = options

  /** Checked again just before an effect: if this step was given up, its failure is reported and something else requested since. */
  async function assertCurrent({ operationId }: Pick<Step, 'operationId'>): Promise<void> {
    await Promise.all([assertCurrentClaim(db, operationId), confirm?.()])
  }

  async function check(name: StepName, input: StepOf, when: Allowed): Promise<Step> {
    cancellationSignal().throwIfAborted()
    const [facts] = await Promise.all([factsOfStep(db, input), when !== 'late' && confirm?.()])
    const { step } = claimOfActivity()
    const current = facts.running && facts.claimStep <= step
    if (!current && (when === 'now' || (when === 'after' && facts.running))) throw lostClaim()
    const kinds: readonly string[] = stepKinds[name]
    if (!kinds.includes(facts.kind)) throw misplaced(`No ${facts.kind} has the step ${name}.`)
    if (facts.app && facts.app.hostId !== traits.id)
      throw misplaced(`The application ${input.appId} is not on the host ${traits.id}.`)
    return stepOf(facts, input)
  }

  function stepOf(facts: OperationFacts, { number }: StepOf): Step {
    const { id, kind, appId, ownerId, running, app } = facts
    const named = (release: Release | null, expected: number): Release => {
      if (release?.number !== expected)
        throw misplaced(`Release ${expected} is not the one of application ${appId} that this step is for.`)
      return release
    }
    return {
      operationId: id,
      kind,
      appId,
      ownerId,
      running,
      isDeleted: app === null,
      brought: () => named(releaseBrought(facts, options), number),
      serving: (expected = number) => named(releaseServing(facts, options), expected),
      served() {
        const serving = releaseServing(facts, options)
        if (!serving) throw misplaced(`The application ${appId} is deleted.`)
        return serving
      },
      spent() {
        if (!running && app?.release === number) throw misplaced(`Release ${number} of application ${appId} serves.`)
        return { appId, number }
      },
    }
  }

  return {
    assertCurrent,

    /** A step of a running operation. Rejects with ClaimLost, or ACTION_FAILED for what none of our lanes requests. */
    begin: (name: StepName, input: StepOf): Promise<Step> => check(name, input, 'now'),

    /** `begin`, for a step that may also come after its operation has ended. */
    beginAfter: (name: StepName, input: StepOf): Promise<Step> => check(name, input, 'after'),

    /** `begin`, for a step that may also have been given up. */
    beginLate: (name: StepName, input: StepOf): Promise<Step> => check(name, input, 'late'),

    /** Runs the work of a step of a running operation under its application's lock. */
    turn<T>(name: StepName, input: StepOf, work: (step: Step) => Promise<T>): Promise<T> {
      return locks(input.appId, async () => work(await check(name, input, 'now')))
    },

    /** `turn`, for a step that may also come after its operation has ended. */
    turnAfter<T>(name: StepName, input: StepOf, work: (step: Step) => Promise<T>): Promise<T> {
      return locks(input.appId, async () => work(await check(name, input, 'after')))
    },

    /** `turn`, for a step that may also have been given up. */
    lateTurn<T>(name: StepName, input: StepOf, work: (step: Step) => Promise<T>): Promise<T> {
      return locks(input.appId, async () => work(await check(name, input, 'late')))
    },
  }
}

function misplaced(message: string) {
  return refusal('ACTION_FAILED', message)
}
