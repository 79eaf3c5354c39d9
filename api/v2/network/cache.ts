import { purgeCache } from '../../../db/apps/cache-versions.ts'
import { transaction } from '../../../db/database.ts'
import { transactionNumber, wakeEdges } from '../../../db/domains/edges.ts'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError } from '../../../policy/errors.ts'
import { limits } from '../../../policy/limits.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { hostName } from '../../views/app.ts'
import { everyEdgeHas } from './edge-acknowledgement.ts'

/** Contract 4.31: answers once no proxy serves a response that was cached before. */
export const purgeAppCache = endpoint({
  name: 'apps.network.purge_cache',
  method: 'POST',
  path: '/v2/apps/{appId}/network/purge_cache',
  summary: 'Remove all cached responses of an application',
  auth: { scope: 'apps:write', permission: 'purge_cache' },
  errors: ['PURGE_CACHE_FAILED'],
  async handle({ caller, app, exchange }, { db, limiter, config }) {
    const name = 'apps.network.purge_cache.owner'
    const owner = { user: { id: app.owner_id, plan: caller.plan }, scale: config.rateLimitScale }
    await limiter.admit(ownCounters(name, limits[name], owner))
    const purge = await transaction(db, async trx => {
      await purgeCache(trx, app.id)
      await wakeEdges(trx)
      return transactionNumber(trx)
    })
    if (!(await everyEdgeHas(db, { transaction: purge, host: hostName(app, config.appsDomain) }, exchange.signal)))
      throw new CodedError('PURGE_CACHE_FAILED')
  },
})
