import { retentionTimes } from '../policy/retention.ts'
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

/** Actions of an account, and actions on its resources, newest first. */
export async function listAudit(db: Db, accountId: string, page: AuditPage): Promise<AuditRow[]> {
  const { days, limit, before, resources } = page
  const query = db('audit')
    .where(where => where.where({ account_id: accountId }).orWhere({ actor: accountId }))
    .whereRaw(`at > now() - make_interval(days => ?)`, [days])
    .orderBy('id', 'desc')
    .limit(limit)
  if (resources) query.whereIn('resource', resources)
  if (before !== undefined) query.where('id', '<', before)
  return query
}

/** Entries of all accounts, for operators; newest first. */
export async function latestAudit(db: Db, limit: number): Promise<AuditRow[]> {
  return db('audit').orderBy('id', 'desc').limit(limit)
}

export function sweepAudit(db: Db): Promise<number> {
  const values = { days: retentionTimes.auditDays }
  return deleteExpired(db, { table: 'audit', when: 'old.at < now() - make_interval(days => :days)', values })
}
