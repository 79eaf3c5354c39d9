import { type Db, sqlState, transaction } from './database.ts'

/** How one login of Postgres stands, for operators. */
export interface Role {
  name: string
  superuser: boolean
  /** Whether tables of Berth are its own: then it may take rules and triggers away. */
  owner: boolean
}

/** The login of this connection. */
export async function currentRole(db: Db): Promise<Role> {
  const { rows } = await db.raw(`
    select r.rolname as name, r.rolsuper as superuser,
      exists (select 1 from pg_class c where c.oid = to_regclass('audit') and pg_has_role(r.oid, c.relowner, 'usage')) as owner
    from pg_roles r where r.rolname = current_user`)
  return rows[0]
}

/**
 * Gives the login that `processUrl` names the rights of Berth's processes: rows, sequences and notifications of this schema,
 * nothing of the schema itself. `db` is the owner's. Makes the login where it is missing, with that password, and replaces the
 * password of one that is there. The owner's own address is left alone: then there is one login for everything. May be repeated.
 */
export async function allowProcesses(db: Db, processUrl: string): Promise<void> {
  const { username, password } = new URL(processUrl)
  const role = decodeURIComponent(username)
  const owner = await currentRole(db)
  if (role === '' || role === owner.name) return
  await transaction(db, async trx => {
    await trx.raw('select pg_advisory_xact_lock(hashtext(?))', ['berth.roles'])
    await logIn(trx, role, decodeURIComponent(password))
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
    // Which migrations have run is the owner's to say.
    await trx.raw('revoke insert, update, delete on knex_migrations, knex_migrations_lock from ??', [role])
  })
}

async function logIn(trx: Db, role: string, password: string): Promise<void> {
  const { rows } = await trx.raw(
    `select (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as may,
      exists (select 1 from pg_roles where rolname = ?) as present`,
    [role],
  )
  const [{ may, present }] = rows
  if (!may && present) return // a managed server, where somebody else makes logins
  const words = `${present ? 'alter' : 'create'} role %I login password %L`
  const { rows: formed } = await trx.raw('select format(?, ?::text, ?::text) as statement', [words, role, password])
  await trx
    .transaction(inner => inner.raw(formed[0].statement.replaceAll('?', '\\?')))
    .catch((error: unknown) => {
      // From Postgres 16 on who may make logins may not change those that others have made.
      if (!present || sqlState(error) !== '42501') throw error
    })
}
