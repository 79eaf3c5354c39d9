import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../db/database.ts'
import type { AppTurns } from './app-turns.ts'
import { assertMine } from './claims.ts'
import type { Release } from './release.ts'

export interface StepTurnsOptions {
  db: Db
  turns: AppTurns
  /** Rejects when another process is this host by now, as Postgres tells it. */
  confirm?(): Promise<void>
}

/** Turns on applications for steps of operations. A step that was given up waits for its turn like others, and then does nothing. */
export function stepTurns({ db, turns, confirm }: StepTurnsOptions) {
  /** Asked just before something is done: who gave this step up has told of its failure, and something else was asked for since. */
  async function mine(release: Release): Promise<void> {
    await assertMine(db, release)
    await confirm?.()
  }

  return {
    mine,

    /** For a step of an operation that still goes on. */
    turn<T>(release: Release, work: () => Promise<T>): Promise<T> {
      return turns(release.appId, async () => {
        await mine(release)
        return work()
      })
    },

    /** For a step that may come after its operation has ended. */
    lateTurn<T>(release: Release, work: () => Promise<T>): Promise<T> {
      const signal = cancellationSignal()
      return turns(release.appId, async () => {
        signal.throwIfAborted()
        return work()
      })
    },
  }
}
