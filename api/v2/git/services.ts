import type { GitProvider } from '../../../activities/git-provider/port.ts'
import type { pushes } from '../../../db/git/pushes.ts'
import type { DeploySourceCache } from './deploy-sources.ts'
import type { PushSlots } from './push-slots.ts'

export interface GitServices {
  sources: DeploySourceCache
  pushes: typeof pushes
  /** Slots for pushes that are being stored. */
  pushSlots: PushSlots
  /** Null: the operator has set up none. */
  gitProvider: GitProvider | null
}
