import type { GitProvider } from '../../../activities/git-provider/port.ts'
import type { pushes } from '../../../db/git/pushes.ts'
import type { DeploySourceCache } from './deploy-sources.ts'

export interface GitServices {
  sources: DeploySourceCache
  pushes: typeof pushes
  /** Null: the operator has set up none. */
  gitProvider: GitProvider | null
}
