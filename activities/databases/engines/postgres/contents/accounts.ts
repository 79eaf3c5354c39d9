import { type Client, escapeIdentifier, escapeLiteral } from 'pg'
import { customerUser } from '../../../../../policy/databases/connection-url.ts'
import { comparisonLimits } from '../../../../../policy/databases/database-steps.ts'
import { demandFew } from '../../read-limits.ts'
import { platformRole } from '../postgres-settings.ts'

interface Role {
  name: string
  /** Null for the customer's own, which the platform makes. */
  attributes: RoleAttributes | null
  comment: string | null
}

interface RoleAttributes {
  login: boolean
  inherit: boolean
  createRole: boolean
  createDatabase: boolean
  connectionLimit: number
  validUntil: string | null
}

interface Membership {
  role: string
  member: string
  /** Null for the platform's. */
  grantor: string | null
  admin: boolean
  inherit: boolean
  set: boolean
}

interface CustomerDatabase {
  name: string
  owner: string
  encoding: string
  collation: string
  characters: string
  /** `b`, `c` or `i`. */
  provider: string
  locale: string | null
  icuRules: string | null
  connectionLimit: number
  template: boolean
  comment: string | null
  /** To whom, null for everyone; what; and whether it may be passed on. */
  grants: [role: string | null, right: string, grantable: boolean][]
}

/** What `alter role … set` and `alter database … set` have stored, as `name=value`. Null for all databases, or all roles. */
interface StoredSetting {
  database: string | null
  role: string | null
  setting: string
}

/** What is the customer's in all databases together. Has no password, nor what is stored of one. */
export interface Accounts {
  roles: Role[]
  memberships: Membership[]
  databases: CustomerDatabase[]
  settings: StoredSetting[]
}

const customerRoles = `r.rolname !~ '^pg_' and r.rolname not in ('${platformRole}')`
const customerDatabases = `d.datname not in ('postgres', 'template0', 'template1') and d.datconnlimit <> -2`

const accountsQuery = `select jsonb_build_object(
  'roles', (select coalesce(jsonb_agg(jsonb_build_object('name', r.rolname, 'attributes', case r.rolname when '${customerUser}' then null
      else jsonb_build_object('login', r.rolcanlogin, 'inherit', r.rolinherit, 'createRole', r.rolcreaterole,
        'createDatabase', r.rolcreatedb, 'connectionLimit', r.rolconnlimit, 'validUntil', r.rolvaliduntil::text) end,
      'comment', shobj_description(r.oid, 'pg_authid')) order by r.rolname collate "C"), '[]') from pg_roles r where ${customerRoles}),
  'memberships', (select coalesce(jsonb_agg(m order by m->>'role' collate "C", m->>'member' collate "C", m->>'grantor' collate "C"), '[]')
    from (select jsonb_build_object('role', r.rolname, 'member', u.rolname, 'grantor', nullif(g.rolname, '${platformRole}'),
      'admin', a.admin_option, 'inherit', a.inherit_option, 'set', a.set_option) m
      from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles u on u.oid = a.member join pg_roles g on g.oid = a.grantor
      where u.rolname <> '${platformRole}' and ${customerRoles}) s),
  'databases', (select coalesce(jsonb_agg(jsonb_build_object('name', d.datname, 'owner', pg_get_userbyid(d.datdba),
      'encoding', pg_encoding_to_char(d.encoding), 'collation', d.datcollate, 'characters', d.datctype, 'provider', d.datlocprovider,
      'locale', d.datlocale, 'icuRules', d.daticurules, 'connectionLimit', d.datconnlimit, 'template', d.datistemplate,
      'comment', shobj_description(d.oid, 'pg_database'),
      'grants', (select coalesce(jsonb_agg(distinct jsonb_build_array(case a.grantee when 0 then null else pg_get_userbyid(a.grantee) end,
        a.privilege_type, a.is_grantable)), '[]') from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a))
      order by d.datname collate "C"), '[]') from pg_database d where ${customerDatabases}),
  'settings', (select coalesce(jsonb_agg(s order by s->>'database' collate "C", s->>'role' collate "C", s->>'setting' collate "C"), '[]')
    from (select jsonb_build_object('database', d.datname, 'role', r.rolname, 'setting', e.each) s
      from pg_db_role_setting x cross join unnest(x.setconfig) as e(each)
      left join pg_database d on d.oid = x.setdatabase left join pg_roles r on r.oid = x.setrole
      where (d.datname is null or ${customerDatabases}) and (r.rolname is null or ${customerRoles})) t)
) as accounts`

/** Reads them from a session in any database. Rejects with DumpPrevented for more roles in roles than anyone has on purpose. */
export async function readAccounts(client: Client, max: number = comparisonLimits.memberships): Promise<Accounts> {
  const { rows: counted } = await client.query('select count(*) as n from pg_auth_members')
  demandFew('memberships of roles', counted[0].n, max)
  const { rows } = await client.query(accountsQuery)
  return rows[0].accounts
}

const name = escapeIdentifier
const text = escapeLiteral
const flag = (is: boolean, word: string): string => `${is ? '' : 'no'}${word}`

/** Statements that make the roles, those first that grant to others. Throws a SyntaxError for memberships that no customer could have granted. */
export function roleStatements({ roles, memberships }: Pick<Accounts, 'roles' | 'memberships'>): string[] {
  const customers = new Set(roles.map(role => role.name))
  if (!memberships.every(({ role, member }) => customers.has(role) && customers.has(member)))
    throw new SyntaxError('A role of another is a member, or has members.')
  const creations = roles.flatMap(({ name: role, attributes, comment }) => [
    ...(attributes ? [`create role ${name(role)} with ${attributesOf(attributes)}`] : []),
    ...(comment === null ? [] : [`comment on role ${name(role)} is ${text(comment)}`]),
  ])
  const keyOf = (role: string, admin: string | null) => JSON.stringify([role, admin])
  const waiting = new Map<string, Membership[]>()
  const ordered: Membership[] = []
  for (const each of memberships) {
    const key = keyOf(each.role, each.grantor)
    if (each.grantor === null) ordered.push(each)
    else if (!waiting.get(key)?.push(each)) waiting.set(key, [each])
  }
  // Grows while it is read: who may grant a role further comes before whom they granted it to.
  for (const { role, member, admin } of ordered) {
    if (!admin) continue
    const key = keyOf(role, member)
    for (const each of waiting.get(key) ?? []) ordered.push(each)
    waiting.delete(key)
  }
  if (ordered.length < memberships.length) throw new SyntaxError('Nobody could have granted a role.')
  const granted = ordered.map(
    ({ role, member, grantor, admin, inherit, set }) =>
      `grant ${name(role)} to ${name(member)} with admin ${admin}, inherit ${inherit}, set ${set}${grantor === null ? '' : ` granted by ${name(grantor)}`}`,
  )
  return [...creations, ...granted]
}

const attributesOf = (role: RoleAttributes): string =>
  [
    ...[flag(role.login, 'login'), flag(role.inherit, 'inherit'), flag(role.createRole, 'createrole')],
    ...[flag(role.createDatabase, 'createdb'), 'nosuperuser noreplication nobypassrls'],
    `connection limit ${Number(role.connectionLimit)}`,
    ...(role.validUntil === null ? [] : [`valid until ${text(role.validUntil)}`]),
  ].join(' ')

const providers: Record<string, string> = { b: 'builtin', c: 'libc', i: 'icu' }

/** The statement that makes an empty database. */
export function databaseStatement(database: CustomerDatabase): string {
  const { provider, locale, icuRules } = database
  const local = locale === null ? '' : ` ${provider === 'i' ? 'icu_locale' : 'builtin_locale'} ${text(locale)}`
  const rules = icuRules === null ? '' : ` icu_rules ${text(icuRules)}`
  return `create database ${name(database.name)} owner ${name(database.owner)} template template0 encoding ${text(database.encoding)}
    lc_collate ${text(database.collation)} lc_ctype ${text(database.characters)} locale_provider ${providers[provider]}${local}${rules}`
}

/** Statements that give a database with contents its rights and properties. */
export function propertyStatements({ grants, ...database }: CustomerDatabase): string[] {
  const own = `database ${name(database.name)}`
  return [
    `alter ${own} with connection limit ${Number(database.connectionLimit)} is_template ${database.template === true}`,
    ...(database.comment === null ? [] : [`comment on ${own} is ${text(database.comment)}`]),
    `revoke all on ${own} from public`,
    `revoke all on ${own} from ${name(database.owner)}`,
    ...grants.map(([role, right, grantable]) => {
      if (!/^[A-Z]+$/.test(right)) throw new SyntaxError('A right has no name.')
      return `grant ${right} on ${own} to ${role === null ? 'public' : name(role)}${grantable ? ' with grant option' : ''}`
    }),
  ]
}

/** Lists of names: their stored text is one already. */
const lists = new Set(['search_path', 'temp_tablespaces', 'local_preload_libraries'])

/** Stores settings that a customer may store. Resolves to the names of those that a customer may not store. */
export async function storeSettings(client: Client, settings: readonly StoredSetting[]): Promise<string[]> {
  const refused: string[] = []
  const { rows } = await client.query('select name, context from pg_settings')
  const contexts = new Map(rows.map(row => [String(row.name).toLowerCase(), row.context]))
  for (const { database, role, setting } of settings) {
    const [key, value] = [setting.slice(0, setting.indexOf('=')), setting.slice(setting.indexOf('=') + 1)]
    const context = contexts.get(key.toLowerCase())
    if (context !== 'user' && !(context === undefined && (key === 'role' || key.includes('.')))) {
      refused.push(key)
      continue
    }
    const where = `${role === null ? '' : `role ${name(role)}`}${role !== null && database !== null ? ' in ' : ''}${database === null ? '' : `database ${name(database)}`}`
    await client.query('begin')
    if (lists.has(key)) await client.query('select set_config($1, $2, true)', [key, value])
    await client.query(
      `alter ${where} set ${key.split('.').map(name).join('.')} ${lists.has(key) ? 'from current' : `to ${text(value)}`}`,
    )
    await client.query('commit')
  }
  return refused
}
