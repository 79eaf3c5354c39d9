import { variableBinding } from './apps/app-variables.ts'
import type { Db } from './database.ts'
import { authorityBinding, clientBinding } from './databases/authorities.ts'
import { acmeAccountBinding } from './domains/acme-accounts.ts'
import { certificateKeyBinding } from './domains/certificates.ts'
import { webhookBinding } from './git/webhooks.ts'

/** A column of sealed values, and what each is bound to. */
export interface SealedColumn {
  table: string
  /** Columns that identify a row, all of them text. */
  key: readonly string[]
  column: string
  belongsTo(...key: string[]): string
}

const ofWebhook = (what: 'address' | 'token' | 'secret'): SealedColumn => ({
  table: 'git_webhooks',
  key: ['app_id'],
  column: `${what}_sealed`,
  belongsTo: appId => webhookBinding(appId, what),
})

/** Every column that holds sealed values: one missing here becomes unreadable once its key is dropped. */
export const sealedColumns: readonly SealedColumn[] = [
  ofWebhook('address'),
  ofWebhook('token'),
  ofWebhook('secret'),
  { table: 'app_variables', key: ['app_id', 'name'], column: 'value_sealed', belongsTo: variableBinding },
  { table: 'authorities', key: ['name'], column: 'key_sealed', belongsTo: authorityBinding },
  { table: 'databases', key: ['id'], column: 'client_sealed', belongsTo: clientBinding },
  { table: 'certificates', key: ['id'], column: 'key_sealed', belongsTo: certificateKeyBinding },
  { table: 'acme_accounts', key: ['directory_url'], column: 'key_sealed', belongsTo: acmeAccountBinding },
]

export interface SealedValue {
  key: string[]
  sealed: Buffer
}

/** The number of values sealed with each key, by key number. */
export async function countSealed(db: Db): Promise<Map<number, number>> {
  const counts = new Map<number, number>()
  for (const { table, column } of sealedColumns) {
    const { rows } = await db.raw(
      'select get_byte(??, 0) as id, count(*)::integer as n from ?? where ?? is not null group by 1',
      [column, table, column],
    )
    for (const { id, n } of rows) counts.set(id, (counts.get(id) ?? 0) + n)
  }
  return counts
}

/** Values of a column that are sealed with a key other than the current one, read by page, each once. */
export async function* listValuesOfOtherKeys(
  db: Db,
  { table, key, column }: SealedColumn,
  current: number,
  page = 100,
): AsyncGenerator<SealedValue> {
  const names = key.map(() => '??').join(', ')
  const marks = key.map(() => '?').join(', ')
  for (let last = key.map(() => ''); ; ) {
    const { rows } = await db.raw(
      `select ${names}, ?? as sealed from ??
        where (get_byte(??, 0) < ? or get_byte(??, 0) > ?) and (${names}) > (${marks}) order by ${names} limit ?`,
      [...key, column, table, column, current, column, current, ...key, ...last, ...key, page],
    )
    for (const row of rows) yield { key: key.map(name => row[name]), sealed: row.sealed }
    if (rows.length < page) return
    last = key.map(name => rows.at(-1)[name])
  }
}

/** Replaces a value by other bytes; false when the stored value is no longer the one that was read. */
export async function replaceSealed(
  db: Db,
  { table, key, column }: SealedColumn,
  value: SealedValue,
  sealed: Buffer,
): Promise<boolean> {
  const row = Object.fromEntries(key.map((name, n) => [name, value.key[n]]))
  const changed = await db(table)
    .where({ ...row, [column]: value.sealed })
    .update({ [column]: sealed })
  return changed === 1
}
