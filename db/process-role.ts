import { type Db, sqlState, transaction } from './database.ts'

/** A login role of Postgres, for operators. */
export interface Role {
  name: string
  superuser: boolean
  /** Whether it owns tables of Berth: then it may drop rules and triggers. */
  owner: boolean
}

/** The role of this connection. */
export async function currentRole(db: Db): Promise<Role> {
  const { rows } = await db.raw(`
    select r.rolname as name, r.rolsuper as superuser,
      exists (select 1 from pg_class c where c.oid = to_regclass('audit') and pg_has_role(r.oid, c.relowner, 'usage')) as owner
    from pg_roles r where r.rolname = current_user`)
  return rows[0]
}

/**
 * Grants the role in `processUrl` the rights of Berth's processes: rows, sequences and notifications of this schema, nothing of the
 * schema itself. `db` is a connection of the owner. Creates the role where it is missing, with that password, and replaces the password
 * of an existing one. Does nothing when the URL names the owner: then there is one role for everything. May be repeated.
 */
export async function allowProcesses(db: Db, processUrl: string): Promise<void> {
  const { username, password } = new URL(processUrl)
  const role = decodeURIComponent(username)
  const owner = await currentRole(db)
  if (role === '' || role === owner.name) return
  await transaction(db, async trx => {
    await trx.raw('select pg_advisory_xact_lock(hashtext(?))', ['berth.roles'])
    await ensureLogin(trx, role, decodeURIComponent(password))
    const { rows } = await trx.raw('select current_database() as name, current_schema() as schema')
    const { name, schema } = rows[0]
    await trx.raw('grant connect on database ?? to ??', [name, role])
    await trx.raw('revoke create on schema ?? from public', [schema])
    await trx.raw('grant usage on schema ?? to ??', [schema, role])
    const rights = ['select, insert, update, delete on', 'tables'] as const
    for (const [verbs, what] of [rights, ['usage, select on', 'sequences']] as const) {
      await trx.raw(`grant ${verbs} all ${what} in schema ?? to ??`, [schema, role])
      await trx.raw(`alter default privileges in schema ?? grant ${verbs} ${what} to ??`, [schema, role])
    }
    // Only the owner records which migrations have run.
    await trx.raw('revoke insert, update, delete on knex_migrations, knex_migrations_lock from ??', [role])
  })
}

async function ensureLogin(trx: Db, role: string, password: string): Promise<void> {
  const { rows } = await trx.raw(
    `select (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as may,
      exists (select 1 from pg_roles where rolname = ?) as present`,
    [role],
  )
  const [{ may, present }] = rows
  if (!may && present) return // a managed server, where roles are created elsewhere
  const format = `${present ? 'alter' : 'create'} role %I login password %L`
  const { rows: formatted } = await trx.raw('select format(?, ?::text, ?::text) as statement', [format, role, password])
  await trx
    .transaction(inner => inner.raw(formatted[0].statement.replaceAll('?', '\\?')))
    .catch((error: unknown) => {
      // From Postgres 16 on, the right to create roles does not include changing roles that others created.
      if (!present || sqlState(error) !== '42501') throw error
    })
}
