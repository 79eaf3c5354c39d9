import { retentionTimes, rowsAtOnce } from '../policy/retention.ts'
import { batched } from './batched.ts'
import type { Db } from './database.ts'
import { deleteExpired } from './expired-rows.ts'
import { statement } from './statement.ts'

export interface AuditEntry {
  /** Account that owns the resource; the actor's own where no other account is concerned, null for the platform itself. */
  accountId: string | null
  /** User id, or `operator:<name>`. */
  actor: string
  action: string
  resource: string | null
  /** `success`, or the error code. */
  result: string
  operationId: string | null
}

export interface AuditRow {
  id: string
  account_id: string | null
  actor: string
  action: string
  resource: string | null
  result: string
  operation_id: string | null
  at: Date
}

/** An entry as columns of its table. */
export const auditRow = ({ accountId, operationId, ...entry }: AuditEntry) => ({
  account_id: accountId,
  operation_id: operationId,
  ...entry,
})

const insert = statement<never>(
  'audit.record',
  `insert into audit (account_id, actor, action, resource, result, operation_id)
   select account_id, actor, action, resource, result, operation_id from json_populate_recordset(null::audit, $1)`,
)

const insertBatched = batched<AuditEntry, void>(async (db, _, entries) => {
  await insert(db, [JSON.stringify(entries.map(auditRow))])
  return entries.map(() => undefined)
})

/** Stores an entry; commands that end at the same time share a commit. */
export const recordAudit = (db: Db, entry: AuditEntry): Promise<void> => insertBatched(db, 'audit', entry)

export interface AuditPage {
  /** How far back, in days. */
  days: number
  limit: number
  /** Only entries older than this id. */
  before?: string
  /** Only entries about these resources; null = about all. */
  resources?: readonly string[] | null
}

const columns = 'id, account_id, actor, action, resource, result, operation_id, at'

/** One side of the list: entries whose column is the account. */
const newestBy = (column: 'account_id' | 'actor') =>
  `(select ${columns} from audit
     where ${column} = $1 and id < coalesce($2::bigint, 9223372036854775807) and at > now() - make_interval(days => $3)
       and ($4::text[] is null or resource = any($4))
     order by id desc limit $5)`

/** Each side has an index; for both together Postgres would sort all entries of an account. */
const list = statement<AuditRow>(
  'audit.list',
  `${newestBy('account_id')} union ${newestBy('actor')} order by id desc limit $5`,
)

/** Actions of an account, and actions on its resources, newest first. */
export async function listAudit(db: Db, accountId: string, page: AuditPage): Promise<AuditRow[]> {
  const { days, limit, before, resources } = page
  return list(db, [accountId, before ?? null, days, resources ?? null, limit])
}

/** Entries of all accounts, for operators; newest first. */
export async function latestAudit(db: Db, limit: number): Promise<AuditRow[]> {
  return db('audit').orderBy('id', 'desc').limit(limit)
}

export function sweepAudit(db: Db): Promise<number> {
  const values = { days: retentionTimes.auditDays }
  return deleteExpired(db, { table: 'audit', when: 'old.at < now() - make_interval(days => :days)', values })
}

/** Commands on objects, by either wire. Not those on credentials, such as `s3.credentials`. */
const aboutObjects = String.raw`action ~ '^(objects|chunked)\.|^s3\.[A-Z]'`

/**
 * Limits the entries of each account about commands on objects to the newest. It remembers up to where it has read, and looks at an account
 * again once this has added a hundredth of its limit.
 */
export class AuditedObjects {
  #readTo: string | null = null
  readonly #added = new Map<string, number>()

  constructor(private readonly retained: number = retentionTimes.auditedObjectCommands) {}

  /** Deletes a batch; resolves to its size. */
  async sweep(db: Db): Promise<number> {
    await this.#read(db)
    for (const [accountId, added] of this.#added) {
      if (added < this.retained / 100) continue
      const deleted = await this.#trim(db, accountId)
      if (deleted < rowsAtOnce) this.#added.delete(accountId)
      if (deleted > 0) return deleted
    }
    return 0
  }

  async #read(db: Db): Promise<void> {
    const newest = (await db('audit').max('id as id').first())?.id ?? '0'
    const from = this.#readTo ?? newest
    this.#readTo = newest
    const { rows } = await db.raw(
      `select account_id, count(*)::int as n from audit
        where id > :from and id <= :newest and ${aboutObjects} and account_id is not null group by account_id`,
      { from, newest },
    )
    for (const { account_id, n } of rows) this.#added.set(account_id, (this.#added.get(account_id) ?? 0) + n)
  }

  async #trim(db: Db, accountId: string): Promise<number> {
    const when = `old.account_id = :accountId and old.${aboutObjects} and old.id <= (
      select id from audit where account_id = :accountId and ${aboutObjects} order by id desc offset :retained limit 1)`
    return deleteExpired(db, { table: 'audit', when, values: { accountId, retained: this.retained } })
  }
}
