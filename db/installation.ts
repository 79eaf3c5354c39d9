import { type Db, sqlState, transaction } from './database.ts'

/** The installation that a database belongs to. */
export interface InstallationRow {
  id: string
  /** Whether an object store carries the mark of this installation. */
  store: boolean
}

const name = 'installation'

/** Null when there is no id yet, also before the first migration. */
export async function readInstallation(db: Db): Promise<InstallationRow | null> {
  const row = await db('settings')
    .where({ name })
    .first('value')
    .catch(error => {
      if (sqlState(error) === '42P01') return undefined
      throw error
    })
  return row?.value ?? null
}

/** Sets this id unless the database has one; resolves to the stored row. */
export async function claimInstallation(db: Db, id: string): Promise<InstallationRow> {
  await db('settings')
    .insert({ name, value: JSON.stringify({ id, store: false }) })
    .onConflict('name')
    .ignore()
  return (await readInstallation(db)) as InstallationRow
}

/**
 * Advances the epoch of the database. A process that has seen a newer epoch knows that a backup was restored while it ran.
 */
export async function advanceEpoch(db: Db): Promise<void> {
  await db.raw(
    `insert into settings as s (name, value) values ('epoch', '{"n": 1}')
     on conflict (name) do update set value = jsonb_build_object('n', (s.value->>'n')::bigint + 1)`,
  )
}

/** Runs `bind` under the lock of the installation's row, then records that the store has its mark. */
export async function bindStore(db: Db, bind: (row: InstallationRow) => Promise<void>): Promise<void> {
  await transaction(db, async trx => {
    const { value } = await trx('settings').where({ name }).forUpdate().first('value')
    await bind(value)
    if (!value.store)
      await trx('settings')
        .where({ name })
        .update({ value: JSON.stringify({ ...value, store: true }) })
  })
}

/** Whether the database has, or ever had, an application. */
export async function hasHadApplications(db: Db): Promise<boolean> {
  if (await db('apps').first('id')) return true
  return Boolean(await db('operations').where({ target_type: 'app' }).first('id'))
}
