import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { pushSlots } from '../../../policy/git/push-slots.ts'

/** The application and account of a push. */
export interface PushSubject {
  appId: string
  ownerId: string
}

/**
 * Slots for pushes that are being stored. Pushes of one application lock one row, so a second one would hold a connection only to wait;
 * and an account that pushes to many applications at once must leave connections for other accounts.
 */
export class PushSlots {
  readonly #apps = new FairSlots({ atOnce: Number.POSITIVE_INFINITY, perSubject: 1 })
  readonly #accounts: FairSlots

  /** For a process with `databasePool` connections. */
  constructor(databasePool: number) {
    this.#accounts = new FairSlots(pushSlots(databasePool))
  }

  /** Resolves to a function that leaves the slot, or to null when none was free by that time of `performance.now()`. */
  async enter({ appId, ownerId }: PushSubject, by: number): Promise<(() => void) | null> {
    const left = () => Math.max(0, by - performance.now())
    const leaveApp = await this.#apps.enter(appId, left())
    if (!leaveApp) return null
    const leaveAccount = await this.#accounts.enter(ownerId, left())
    if (!leaveAccount) {
      leaveApp()
      return null
    }
    return () => {
      leaveAccount()
      leaveApp()
    }
  }
}
