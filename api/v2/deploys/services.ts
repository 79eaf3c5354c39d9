import type { FairSlots } from '../../../lib/async/fair-slots.ts'
import type { RowNotifications } from '../../pipeline/row-notifications.ts'

/** What reads logs of deployments. */
export interface DeployServices {
  /** New states and output of deployments, by their ids. */
  deploymentNotifications: RowNotifications
  /** Slots for reading whole logs, fair between accounts. */
  logSlots: FairSlots
}
