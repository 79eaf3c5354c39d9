import type { Lanes } from '../../../workflows/client.ts'
import type { ResolvesName } from './database-address.ts'

/** What commands for databases need, in addition to those for applications. */
export interface DatabaseServices {
  /** Of databases. */
  databaseLanes: Lanes
  resolvesName: ResolvesName
}
