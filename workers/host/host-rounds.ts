import { changesSince } from '../../db/apps/app-changes.ts'
import { type ComparisonOptions, reconcile, reconcileSome } from './host-comparison.ts'
import { Rounds } from './watch/rounds.ts'

export interface AppRoundsOptions extends ComparisonOptions {
  everythingSeconds?: number
  now?: () => number
}

/** Rounds of the host watch: applications of one host. */
export class HostRounds extends Rounds {
  constructor(options: AppRoundsOptions) {
    const own = { failing: new Set<string>(), ...options }
    const { db, hostId } = own
    super(
      {
        changes: mark => changesSince(db, mark, hostId),
        some: ids => reconcileSome(own, ids),
        everything: () => reconcile(own),
      },
      own,
    )
  }
}
