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

/**
 * What an entry counts as: commands on objects, by either wire, are one kind, each other command is its own. Those on credentials, such as
 * `s3.credentials`, are no commands on objects. The index `audit_kinds` has the same expression.
 */
const kind = String.raw`case when action ~ '^(objects|chunked)\.|^s3\.[A-Z]' then 'objects' else action end`

/** Entries that are counted by one statement, and such statements of one round. */
const slice = { rows: 20_000, atOnce: 20 } as const

/** Max entries of one account about commands on objects, and about each other command. */
export interface AuditBounds {
  objects: number
  command: number
}

/**
 * Limits the entries of each account to the newest of each kind. It counts what is added, from the first entry on, and looks at an account
 * again once this has added a hundredth of the larger limit.
 */
export class BoundedAudit {
  #readTo = '0'
  /** In the order in which accounts are looked at. */
  readonly #added = new Map<string, number>()

  constructor(private readonly bounds: AuditBounds = retentionTimes.auditedCommands) {}

  /** Deletes a batch; resolves to its size. An account that fails is last in the next round. */
  async sweep(db: Db): Promise<number> {
    await this.#read(db)
    const enough = Math.max(this.bounds.objects, this.bounds.command) / 100
    for (const [accountId, added] of [...this.#added]) {
      if (added < enough) continue
      this.#added.delete(accountId)
      const again = () => this.#added.set(accountId, added)
      const deleted = await this.#trim(db, accountId).catch(error => {
        again()
        throw error
      })
      if (deleted > 0) {
        again()
        return deleted
      }
    }
    return 0
  }

  /** Counts what was added; a backlog, as after a restart, in several rounds. */
  async #read(db: Db): Promise<void> {
    for (let statements = 0; statements < slice.atOnce; statements++) {
      const { rows } = await db.raw(
        `select account_id, count(*)::int as n, max(max(id)) over () as read_to, (sum(count(*)) over ())::int as read
           from (select id, account_id from audit where id > :from order by id limit :limit) added group by account_id`,
        { from: this.#readTo, limit: slice.rows },
      )
      for (const { account_id, n } of rows)
        if (account_id !== null) this.#added.set(account_id, (this.#added.get(account_id) ?? 0) + n)
      this.#readTo = rows[0]?.read_to ?? this.#readTo
      if ((rows[0]?.read ?? 0) < slice.rows) return
    }
  }

  async #trim(db: Db, accountId: string): Promise<number> {
    const kinds = await db.raw(
      `with recursive kinds as (
         (select ${kind} as kind from audit where account_id = :accountId order by 1 limit 1)
         union all
         select (select ${kind} from audit where account_id = :accountId and ${kind} > kinds.kind order by 1 limit 1)
           from kinds where kinds.kind is not null)
       select kind from kinds where kind is not null`,
      { accountId },
    )
    let deleted = 0
    for (const { kind: which } of kinds.rows)
      if (deleted < rowsAtOnce) deleted += await this.#trimKind(db, accountId, which, rowsAtOnce - deleted)
    return deleted
  }

  async #trimKind(db: Db, accountId: string, which: string, limit: number): Promise<number> {
    const { rows } = await db.raw(
      `select id from audit where account_id = :accountId and ${kind} = :which order by id desc offset :retained limit 1`,
      { accountId, which, retained: which === 'objects' ? this.bounds.objects : this.bounds.command },
    )
    if (!rows[0]) return 0
    const when = `old.account_id = :accountId and ${kind} = :which and old.id <= :id`
    return deleteExpired(db, { table: 'audit', when, values: { accountId, which, id: rows[0].id }, limit })
  }
}
