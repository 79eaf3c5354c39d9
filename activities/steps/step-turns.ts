import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import type { OperationFacts } from '../../db/operations/operation-facts.ts'
import type { OperationKind } from '../../db/operations/operation-kinds.ts'
import { type StepName, stepKinds } from '../../policy/apps/step-kinds.ts'
import { refusal } from '../failures.ts'
import { type DecisionOptions, releaseBrought, releaseServing } from '../releases/decision.ts'
import type { Release, StepOf } from '../releases/release.ts'
import type { AppTurns } from './app-turns.ts'
import { assertMine, claimOfActivity, lostClaim } from './claims.ts'
import { factsOfStep } from './step-facts.ts'

export interface StepTurnsOptions extends DecisionOptions {
  db: Db
  turns: AppTurns
  traits: { id: string }
  /** Rejects when another process is this host by now, as Postgres tells it. */
  confirm?(): Promise<void>
}

/** A step of an operation as Postgres tells it: of its input only ids were believed, and they fit. */
export interface Step {
  operationId: string
  kind: OperationKind
  appId: string
  ownerId: string
  /** Whether the operation still goes on. */
  running: boolean
  /** The application is deleted: there is nothing of it but what lies at its host. */
  gone: boolean
  /** The release that the operation brings. Rejects when it brings none, or the step names another. */
  brought(): Release
  /** The release that serves. Rejects when the step, or `number`, names another. */
  serving(number?: number): Release
  /** The release that serves now, whichever served when the step was asked for. Rejects when the application is gone. */
  served(): Release
  /** The named release, to be ended or thrown away. Rejects when its operation has ended, and this is what serves since then. */
  spent(): Pick<Release, 'appId' | 'number'>
}

/** While the operation goes on; then or when it has ended; or also for a step that was given up. */
type Asked = 'now' | 'after' | 'late'

/**
 * Steps of operations at their host, and turns on their applications. Nothing of a step's input is believed but ids, and those only
 * when its run of a lane works on this operation, of a kind that has such a step, of an application of this host: whoever reaches
 * Temporal can ask for any step, with any input. A step that was given up waits for its turn like others, and then does nothing.
 */
export function stepTurns(options: StepTurnsOptions) {
  const { db, turns, confirm, traits } = options

  /** Asked again just before an effect: who gave this step up has told of its failure, and something else was asked for since. */
  async function mine({ operationId }: Pick<Step, 'operationId'>): Promise<void> {
    await assertMine(db, operationId)
    await confirm?.()
  }

  async function looked(name: StepName, asked: StepOf, when: Asked): Promise<Step> {
    cancellationSignal().throwIfAborted()
    const facts = await factsOfStep(db, asked)
    const { step } = claimOfActivity()
    const current = facts.running && facts.claimStep <= step
    if (!current && (when === 'now' || (when === 'after' && facts.running))) throw lostClaim()
    const kinds: readonly string[] = stepKinds[name]
    if (!kinds.includes(facts.kind)) throw misplaced(`No ${facts.kind} has the step ${name}.`)
    if (facts.app && facts.app.hostId !== traits.id)
      throw misplaced(`The application ${asked.appId} is not on the host ${traits.id}.`)
    if (when !== 'late') await confirm?.()
    return stepOf(facts, asked)
  }

  function stepOf(facts: OperationFacts, { number }: StepOf): Step {
    const { id, kind, appId, ownerId, running, app } = facts
    const named = (release: Release | null, wanted: number): Release => {
      if (release?.number !== wanted)
        throw misplaced(`Release ${wanted} is not the one of application ${appId} that this step is for.`)
      return release
    }
    return {
      operationId: id,
      kind,
      appId,
      ownerId,
      running,
      gone: app === null,
      brought: () => named(releaseBrought(facts, options), number),
      serving: (wanted = number) => named(releaseServing(facts, options), wanted),
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
    mine,

    /** A step of an operation that goes on. Rejects with ClaimLost, or ACTION_FAILED for what no lane of ours asks for. */
    begin: (name: StepName, asked: StepOf): Promise<Step> => looked(name, asked, 'now'),

    /** `begin`, for a step that may also come when its operation has ended. */
    beginAfter: (name: StepName, asked: StepOf): Promise<Step> => looked(name, asked, 'after'),

    /** `begin`, for a step that may also have been given up. */
    beginLate: (name: StepName, asked: StepOf): Promise<Step> => looked(name, asked, 'late'),

    /** Does the work of a step of an operation that goes on in its application's turn. */
    turn<T>(name: StepName, asked: StepOf, work: (step: Step) => Promise<T>): Promise<T> {
      return turns(asked.appId, async () => work(await looked(name, asked, 'now')))
    },

    /** `turn`, for a step that may come after its operation has ended. */
    lateTurn<T>(name: StepName, asked: StepOf, work: (step: Step) => Promise<T>): Promise<T> {
      return turns(asked.appId, async () => work(await looked(name, asked, 'late')))
    },
  }
}

function misplaced(message: string) {
  return refusal('ACTION_FAILED', message)
}
