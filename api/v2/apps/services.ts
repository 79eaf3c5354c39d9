import type { Archives } from '../../../activities/archives/port.ts'
import type { TtlCache } from '../../../lib/async/ttl-cache.ts'
import type { CommandTimeouts } from '../../../policy/timeouts.ts'
import type { Lanes } from '../../../workflows/client.ts'
import type { Point } from '../../views/metrics.ts'
import type { Outcomes } from './outcomes.ts'

/** What commands for applications need. */
export interface AppServices {
  archives: Archives
  lanes: Lanes
  /** Reports the end of operations. */
  outcomes: Outcomes
  /** How long a request waits for its operation. */
  timeouts: CommandTimeouts
  /** The points of an application or a database, by its id. */
  metrics: TtlCache<Point[]>
}
