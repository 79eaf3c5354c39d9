import { customerUser } from '../../../../../policy/databases/connection-url.ts'
import { type MysqlSession, named, quotedSql, textOfCell } from '../mysql-session.ts'
import { platformUsers } from '../mysql-settings.ts'

/** A user or role that the customer made. No password, and nothing that was derived from one. */
export interface User {
  user: string
  host: string
  /** It cannot log in, and never had a password: a role, most likely. */
  role: boolean
  /** What must be true of its connections and passwords, as statements have it. */
  terms: string
  grants: string[]
  defaultRoles: string[]
}

/** A table or view. */
interface Named {
  database: string
  name: string
}

/** All of them at `localhost`: at other hosts these names are the customer's to give. */
const ownUsers = ['root', 'mysql.sys', 'mysql.session', 'mysql.infoschema', ...Object.values(platformUsers)]

const account = (user: string, host: string): string => `${named(user)}@${named(host)}`

/** As every engine has it, whatever its owner did to that of another one: only roles are a customer's. */
const mainUser: User = { user: customerUser, host: '%', role: false, terms: '', grants: [], defaultRoles: [] }

/**
 * All users and roles of the customer, without rights to what is left out; of the customer's main user only which roles it has. Others of its
 * name are left out: each new password removes them.
 */
export async function usersOf(session: MysqlSession, leftOut: readonly Named[]): Promise<User[]> {
  const rows = await session.rows(
    `SELECT user, host, account_locked = 'Y' AND authentication_string = '' FROM mysql.user
     WHERE NOT (host = 'localhost' AND user IN (${ownUsers.map(name => quotedSql(name)).join(', ')})) AND (user <> ${quotedSql(customerUser)} OR host = '%')
     ORDER BY CAST(user AS BINARY), CAST(host AS BINARY)`,
  )
  const users: User[] = rows.some(([user]) => textOfCell(user) === customerUser) ? [] : [mainUser]
  for (const [user, host, role] of rows.map(row => row.map(textOfCell))) {
    const name = account(user!, host!)
    const main = user === customerUser
    const [shown] = await session.rows(`SHOW CREATE USER ${name}`)
    const grants = (await session.rows(`SHOW GRANTS FOR ${name}`)).map(([line]) => textOfCell(line))
    const existing: string[] = []
    for (const grant of grants) if (await concernsSomething(session, grant, leftOut)) existing.push(grant)
    const roles = await session.rows(
      `SELECT default_role_user, default_role_host FROM mysql.default_roles WHERE user = ${quotedSql(user!)} AND host = ${quotedSql(host!)}`,
    )
    users.push({
      ...{ user: user!, host: host!, role: role === '1', terms: main ? '' : termsOf(textOfCell(shown![0])) },
      grants: existing.filter(grant => !main || givesRoles(grant)),
      defaultRoles: roles.map(([name, where]) => account(textOfCell(name), textOfCell(where))).sort(),
    })
  }
  return users
}

/** Without the name, the plugin, the hash and the default roles. */
function termsOf(shown: string): string {
  // The word may be part of a name.
  const [before] = /^(?:`[^`]*`|[^`])*? (?=REQUIRE )/.exec(shown) ?? []
  if (before === undefined) throw new Error('a user is shown without its requirements')
  return shown.slice(before.length)
}

const givesRoles = (grant: string): boolean => /^GRANT `/.test(grant)

/** Privileges on a table or routine outlive it. */
async function concernsSomething(session: MysqlSession, grant: string, leftOut: readonly Named[]): Promise<boolean> {
  const object = / ON (PROCEDURE |FUNCTION )?`((?:[^`]|``)+)`\.`((?:[^`]|``)+)` (?:TO|FROM) /.exec(grant)
  if (!object) return true
  const [, kind, ...names] = object
  const [database, name] = names.map(each => each!.replaceAll('``', '`')) as [string, string]
  if (!kind && leftOut.some(view => view.database === database && view.name === name)) return false
  const [where, is] = [quotedSql(database), quotedSql(name)]
  const rows = await session.rows(
    kind
      ? `SELECT 1 FROM information_schema.routines WHERE routine_type = '${kind.trim()}' AND routine_schema = ${where} AND routine_name = ${is}`
      : `SELECT 1 FROM information_schema.tables WHERE table_schema = ${where} AND table_name = ${is}`,
  )
  return rows.length > 0
}

/** Creates the users with random passwords: an empty one would admit everyone. */
export async function createUsers(session: MysqlSession, users: User[]): Promise<void> {
  for (const { user, host, role, terms } of users) {
    if (user === customerUser) continue
    const password = role ? '' : ' BY RANDOM PASSWORD'
    await session.rows(`DROP USER IF EXISTS ${account(user, host)}`)
    await session.rows(`CREATE USER ${account(user, host)} IDENTIFIED WITH caching_sha2_password${password} ${terms}`)
  }
}

/** Everything that the grants are about exists by now. */
export async function grantUsers(session: MysqlSession, users: User[]): Promise<void> {
  for (const { grants } of users) for (const grant of grants) await session.rows(grant)
  for (const { user, host, defaultRoles } of users)
    if (defaultRoles.length > 0)
      await session.rows(`ALTER USER ${account(user, host)} DEFAULT ROLE ${defaultRoles.join(', ')}`)
}
