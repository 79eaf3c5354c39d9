import type { GitProvider } from '../../../activities/git-provider/port.ts'
import type { DeploySourceCache } from './deploy-sources.ts'
import type { PushSlots } from './push-slots.ts'

export interface GitServices {
  sources: DeploySourceCache
  /** Slots for pushes that are being stored. */
  pushSlots: PushSlots
  /** Null: the operator has set up none. */
  gitProvider: GitProvider | null
}
