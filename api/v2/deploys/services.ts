import type { FairSlots } from '../../../lib/async/fair-slots.ts'
import type { News } from '../../pipeline/news.ts'

/** What reads logs of deployments. */
export interface DeployServices {
  /** New states and output of deployments, by their ids. */
  deploymentNews: News
  /** Slots for reading whole logs, fair between accounts. */
  logSlots: FairSlots
}
