import { z } from 'zod'
import { listSnapshotsOfOwner } from '../../../db/snapshots/snapshots.ts'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError } from '../../../policy/errors.ts'
import { limits } from '../../../policy/limits.ts'
import { coversResource } from '../../pipeline/access.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { snapshotView } from '../../views/snapshot.ts'
import { linking, snapshot } from './snapshots.ts'

/** Contract 3.14: of all applications, or databases, of the account, newest first. */
export const listAccountSnapshots = endpoint({
  name: 'users.snapshots',
  method: 'GET',
  path: '/v2/users/snapshots',
  summary: 'List the snapshots of the whole account',
  auth: { scope: 'snapshots:read' },
  query: z.object({ scope: z.enum(['applications', 'databases'], { error: 'INVALID_SCOPE' }).default('applications') }),
  response: z.array(snapshot),
  errors: ['INVALID_SCOPE', 'UPGRADE_REQUIRED'],
  statuses: { UPGRADE_REQUIRED: 402 },
  async handle({ caller, query }, services) {
    if (caller.planName === 'free') throw new CodedError('UPGRADE_REQUIRED')
    const type = query.scope === 'databases' ? 'database' : 'app'
    const rows = await services.accountSnapshots.of(`${type}/${caller.user.id}`, async () => {
      await countMiss(caller, services)
      return listSnapshotsOfOwner(services.db, caller.user.id, type)
    })
    return rows.filter(row => coversResource(caller, row.target_id)).map(row => snapshotView(row, linking(services)))
  },
})

async function countMiss({ user, plan }: Caller, { limiter, config }: Services): Promise<void> {
  const name = 'users.snapshots.misses'
  const subject = { user: { id: user.id, plan }, scale: config.rateLimitScale }
  await limiter.admit(ownCounters(name, limits[name], subject))
}
