import { cancellationSignal } from '@temporalio/activity'
import { loadApp } from '../db/apps.ts'
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

    /** For what takes away the rest of an application: once its row is gone, by an operation that has ended with it, nobody has it back. */
    async mineOrGone(release: Release): Promise<void> {
      if (await loadApp(db, release.appId)) await mine(release)
      else await confirm?.()
    },

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
