import { countChecked } from '../../db/apps/app-health.ts'
import type { Db } from '../../db/database.ts'
import type { Finding } from './findings.ts'

/** Number of unhealthy applications that are named. */
const maxNamed = 3

/**
 * How many applications with HEALTH are unhealthy; nothing where none is checked. It needs no remedy of the operator: the program is its
 * owner's, who sees the reason in its status.
 */
export async function checkedAppsFinding(db: Db): Promise<Finding[]> {
  const { checked, unhealthy } = await countChecked(db)
  if (checked === 0) return []
  const more = unhealthy.length > maxNamed ? ' and others' : ''
  const named = unhealthy.length > 0 ? ` (${unhealthy.slice(0, maxNamed).join(', ')}${more})` : ''
  return [{ name: 'health checks', state: `${unhealthy.length} of ${checked} checked applications unhealthy${named}` }]
}
