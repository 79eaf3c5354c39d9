import { domainTimes } from '../../policy/domains/times.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import type { DomainRow } from './domain-rows.ts'

const retained = ['orders_failed', 'order_at', 'code', 'message'] as const
type Delay = Pick<DomainRow, (typeof retained)[number]>

/**
 * Deletes a name of an account, with its certificates; with `unused`, only one that no application has. The delay of its refused orders is
 * retained for a day, or as long as it lasts: setting the name again must not get around it. False when nothing was deleted.
 */
export async function deleteDomain(trx: Db, hostname: string, { unused = false } = {}): Promise<boolean> {
  // Of two applications that leave concurrently each would still see the other: the holder of this lock sees what the one before has left.
  if (unused) await trx('domains').where({ hostname }).forUpdate().first('hostname')
  const [row]: DomainRow[] = await trx('domains')
    .where({ hostname })
    .whereNotNull('owner_id')
    .modify(query => {
      if (unused) query.whereNotExists(trx('apps').where({ custom_domain: hostname }).select(trx.raw('1')))
    })
    .delete()
    .returning('*')
  if (!row) return false
  const { owner_id, orders_failed, order_at, code, message } = row
  const now = Date.now()
  if (orders_failed === 0 && order_at.getTime() <= now) return true
  const ends_at = new Date(Math.max(order_at.getTime(), now + domainTimes.refusedOrder.maxMs))
  await trx('domain_delays')
    .insert({ hostname, owner_id, orders_failed, order_at, code, message, ends_at })
    .onConflict(['hostname', 'owner_id'])
    .merge()
  return true
}

/** Takes the delay that an account has left with a name before: it counts again from the proof on, before which nothing is ordered. */
export async function takeDelay(trx: Db, { hostname, owner_id }: DomainRow): Promise<Delay | undefined> {
  const [delay]: Delay[] = await trx('domain_delays')
    .where({ hostname, owner_id })
    .delete()
    .returning([...retained])
  return delay
}

/** Deletes delays of released names that are over; resolves to their number. */
export function sweepDomainDelays(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'domain_delays', when: 'old.ends_at < now()' })
}
