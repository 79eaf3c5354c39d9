import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

/** Events of a name that `berth domains explain` shows; older ones are dropped. */
const eventsPerName = 50

export interface DomainEvent {
  at: Date
  text: string
}

/** Records what happened to a name, in words. An event that repeats the last one is not recorded again. */
export async function recordDomainEvent(trx: Db, hostname: string, text: string): Promise<void> {
  await trx.raw(
    `insert into domain_events (hostname, text)
     select :hostname, :text where :text is distinct from
       (select text from domain_events where hostname = :hostname order by seq desc limit 1)`,
    { hostname, text: text.slice(0, 500) },
  )
  await trx.raw(
    `delete from domain_events where hostname = :hostname and seq <=
       (select seq from domain_events where hostname = :hostname order by seq desc offset :kept limit 1)`,
    { hostname, kept: eventsPerName },
  )
}

/** The last events of a name, oldest first. They stay when the name is released. */
export async function listDomainEvents(db: Db, hostname: string): Promise<DomainEvent[]> {
  return db('domain_events').where({ hostname }).orderBy('seq').select('at', 'text')
}

/** Deletes events of names that were released 30 days ago; resolves to their number. */
export function sweepDomainEvents(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'domain_events', when: `old.released_at < now() - interval '30 days'` })
}
