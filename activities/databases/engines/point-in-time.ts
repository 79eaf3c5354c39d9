import type { EngineName } from '../../../policy/databases/engine.ts'
import type { PointInTimeEngine } from '../point-in-time/port.ts'
import { postgresPointInTime } from './postgres/point-in-time/postgres-point-in-time.ts'

/** How an engine is restored to any second; null for engines that are restored from snapshots only. */
export const pointInTimeOf = (name: EngineName): PointInTimeEngine | null =>
  name === 'postgres' ? postgresPointInTime : null
