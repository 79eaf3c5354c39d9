import { escape as quotedSql } from 'mysql2'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import { mysqlVerifier } from './mysql-verifier.ts'

/**
 * What the customer may do everywhere but in the server's own schemas, and may hand on. Listed, because `ALL` has what would open
 * the server's files, settings and other sessions: FILE, SHUTDOWN, SYSTEM_USER, SYSTEM_VARIABLES_ADMIN and many more, some of them in
 * later versions only. RELOAD and BACKUP_ADMIN have locks that would hold up our own statements.
 */
const privileges = [
  ...['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'CREATE', 'DROP', 'REFERENCES', 'INDEX', 'ALTER'],
  ...['CREATE TEMPORARY TABLES', 'LOCK TABLES', 'CREATE VIEW', 'SHOW VIEW', 'SHOW DATABASES'],
  ...['CREATE ROUTINE', 'ALTER ROUTINE', 'EXECUTE', 'EVENT', 'TRIGGER', 'PROCESS', 'CREATE USER'],
]

/** Taken back in the server's own schemas, of which the first has all accounts and privileges. */
const revoked = {
  mysql: [
    ...['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'CREATE', 'DROP', 'REFERENCES', 'INDEX', 'ALTER'],
    ...['CREATE TEMPORARY TABLES', 'LOCK TABLES', 'CREATE VIEW', 'SHOW VIEW'],
    ...['CREATE ROUTINE', 'ALTER ROUTINE', 'EXECUTE', 'EVENT', 'TRIGGER'],
  ],
  sys: [
    ...['INSERT', 'UPDATE', 'DELETE', 'CREATE', 'DROP', 'REFERENCES', 'INDEX', 'ALTER'],
    ...['CREATE TEMPORARY TABLES', 'LOCK TABLES', 'CREATE VIEW', 'CREATE ROUTINE', 'ALTER ROUTINE', 'EVENT', 'TRIGGER'],
  ],
} as const

const account = `'${customerUser}'@'%'`

/**
 * Has the customer's rights with what is taken back, and is nobody's. A grant of a whole privilege would give back what was taken until that
 * is taken again, which a statement of an event could hit; one on behalf of this account never has more than it.
 */
const model = "'berth_model'@'localhost'"

/** Statements that make the customer's account what it should be, whatever its owner changed. The password appears as its verifier only. */
export function accountStatements(password: string): string[] {
  const identified = `IDENTIFIED WITH caching_sha2_password AS ${quotedSql(mysqlVerifier(password))}`
  return [
    `CREATE USER IF NOT EXISTS ${account} ${identified} REQUIRE SSL`,
    [
      `ALTER USER ${account} ${identified} REQUIRE SSL`,
      'WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 0 MAX_USER_CONNECTIONS 0',
      'PASSWORD EXPIRE NEVER PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT',
      'FAILED_LOGIN_ATTEMPTS 0 PASSWORD_LOCK_TIME 0 ACCOUNT UNLOCK',
    ].join(' '),
    // A second password, which an account can have, would outlive the change.
    `ALTER USER ${account} DISCARD OLD PASSWORD`,
    `CREATE USER IF NOT EXISTS ${model} ACCOUNT LOCK`,
    // Its owner could change it otherwise, as any user.
    `GRANT SYSTEM_USER ON *.* TO ${model}`,
    `GRANT ${privileges.join(', ')} ON *.* TO ${model} WITH GRANT OPTION`,
    ...Object.entries(revoked).map(([schema, names]) => `REVOKE ${names.join(', ')} ON ${schema}.* FROM ${model}`),
    `GRANT ${privileges.join(', ')} ON *.* TO ${account} WITH GRANT OPTION AS ${model}`,
  ]
}

/** Accounts that the server would prefer to the customer's for some addresses. */
export const selectShadows = `SELECT user, host FROM mysql.user WHERE (user = '${customerUser}' AND host <> '%') OR user = ''`

export const dropAccount = (user: string, host: string): string =>
  `DROP USER IF EXISTS ${quotedSql(user)}@${quotedSql(host)}`

/** Lists all connections; ours come through the socket, which is this host. */
export const selectConnections = 'SHOW PROCESSLIST'
export const socketHost = 'localhost'
