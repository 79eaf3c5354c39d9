import type { GitProvider } from '../../../activities/git-provider/port.ts'
import type { KnownSources } from './deploy-sources.ts'
import type { PushTurns } from './push-turns.ts'

export interface GitServices {
  sources: KnownSources
  /** Slots for pushes that are being stored. */
  pushTurns: PushTurns
  /** Null: the operator has set up none. */
  gitProvider: GitProvider | null
}
