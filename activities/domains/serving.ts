import { sleep } from '@temporalio/activity'
import { type Db, transaction } from '../../db/database.ts'
import { findCertificates, recordServed } from '../../db/domains/certificates.ts'
import { edgesBehind, isAnyEdgeLive, transactionNumber, wakeEdges } from '../../db/domains/edges.ts'
import { edgeRules } from '../../policy/domains/edges.ts'

/** Waits until every live proxy has the current certificate of a name, and records that. False when they take too long, or none lives. */
export async function untilServed(db: Db, hostname: string, pollMs: number): Promise<boolean> {
  const { current } = await findCertificates(db, hostname)
  if (!current) return false
  const number = await transaction(db, async trx => {
    await wakeEdges(trx)
    // Later than the certificate: a proxy that has this one has the certificate too.
    return transactionNumber(trx)
  })
  const end = Date.now() + edgeRules.serveSeconds * 1000
  while (!(await isAnyEdgeLive(db)) || (await edgesBehind(db, number)).length > 0) {
    if (Date.now() > end) return false
    await sleep(pollMs) // ends with the worker
  }
  await recordServed(db, current.id)
  return true
}
