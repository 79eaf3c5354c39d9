import { type Db, transaction } from '../database.ts'
import { transactionNumber, wakeEdges } from '../domains/edges.ts'

/**
 * Makes every cached response of an application invalid and wakes the proxies. Resolves to the transaction that they apply
 * (db/domains/edges.ts).
 */
export async function purgeCache(db: Db, appId: string): Promise<string> {
  return transaction(db, async trx => {
    await trx('apps').where({ id: appId }).increment('cache_version')
    await wakeEdges(trx)
    return transactionNumber(trx)
  })
}
