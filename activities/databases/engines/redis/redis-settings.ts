import { createHash } from 'node:crypto'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import { connectionsOf } from '../../../../policy/databases/engines.ts'
import { certificateFiles, type DatabaseSecrets, type DatabaseTraits, places } from '../../port.ts'

/** The platform's user. Redis cannot identify a local process, so it has a password of its own. */
export const platformUser = 'berth_platform'

export const socketFile = 'redis.sock'

export const configFile = `${places.settings}/redis.conf`

/** Files that `CONFIG SET` reads again, also when their names stay the same. */
export const tlsFiles = {
  'tls-cert-file': `${places.settings}/${certificateFiles.certificate}`,
  'tls-key-file': `${places.settings}/${certificateFiles.key}`,
} as const

/**
 * What the customer may do: everything but what Redis calls dangerous or administrative, so that a new version adds nothing unnoticed;
 * of that, what only touches the customer's own data. Excluded are thus commands that change settings, users or files, load code into the
 * process, stop or block the server, connect to other servers, or end connections of the platform.
 */
const customerRights = [
  ...['~*', '&*', '+@all', '-@dangerous', '-@admin', '-script|debug'],
  ...['keys', 'sort', 'sort_ro', 'flushall', 'flushdb', 'swapdb', 'restore', 'info', 'role', 'lastsave', 'monitor'].map(
    name => `+${name}`,
  ),
  ...['client|list', 'config|get', 'slowlog|get', 'slowlog|len', 'latency|latest', 'latency|histogram'].map(
    name => `+${name}`,
  ),
]

/** Rules of `ACL SETUSER` for the customer's user; they replace all that it had. */
export const customerRules = (password: string): string[] => ['reset', 'on', `#${hashOf(password)}`, ...customerRights]

/** Files in the folder of settings: the users are in them, so each start has the present password. */
export const redisSettings = (traits: DatabaseTraits, secrets: DatabaseSecrets): Record<string, string> => ({
  'redis.conf': `${Object.entries(directives(traits))
    .map(([name, value]) => `${name} ${value}`)
    .join('\n')}\n`,
  'users.acl': `\
user ${customerUser} ${customerRules(secrets.password).join(' ')}
user ${platformUser} reset on #${hashOf(secrets.platformPassword)} ~* &* +@all
`,
})

/** Redis stores the digest only. The password is random and long, so that it needs no salt. */
const hashOf = (password: string): string => createHash('sha256').update(password).digest('hex')

/** What its data may take of the memory of a database, in MB. */
export const dataMbOf = ({ memoryMb }: Pick<DatabaseTraits, 'memoryMb'>): number => Math.floor(memoryMb * 0.65)

/** Whether Redis admits what adds data, as directives that can be set while it runs. */
export const writeDirectives = (traits: DatabaseTraits): Record<string, string> => ({
  // With 1 byte it refuses every command that may need memory, and admits those that delete.
  maxmemory: traits.readOnly ? '1' : `${dataMbOf(traits)}mb`,
  // It writes its log anew next to the present one, whether there is room or not: on a nearly full disk the host decides (`shrinkFiles`).
  'auto-aof-rewrite-percentage': traits.readOnly ? '0' : '100',
})

/** Where it cannot write it ends, as Postgres does: a memory that its disk does not follow would be acknowledged to others. */
export const syncDirectives = (traits: DatabaseTraits): Record<string, string> => ({
  appendfsync: traits.syncsLate ? 'everysec' : 'always',
})

function directives(traits: DatabaseTraits): Record<string, string | number> {
  const { memoryMb, port } = traits
  const share = (part: number) => `${Math.floor(memoryMb * part)}mb`
  return {
    bind: '* -::*',
    port: 0,
    'tls-port': port,
    ...tlsFiles,
    'tls-auth-clients': 'no',
    'tls-protocols': '"TLSv1.2 TLSv1.3"',
    unixsocket: `${places.run}/${socketFile}`,
    unixsocketperm: 700,
    aclfile: `${places.settings}/users.acl`,
    // It counts the platform's too, and has no other way to reserve some: its host lets fewer through (network-rules.ts).
    maxclients: connectionsOf('redis', memoryMb).inAll,
    'tcp-keepalive': 60,
    daemonize: 'no',
    logfile: '""',
    dir: places.data,
    appendonly: 'yes',
    ...syncDirectives(traits),
    'aof-use-rdb-preamble': 'yes',
    // The log of changes is complete; a second copy of all data would only cost memory and disk.
    save: '""',
    ...writeDirectives(traits),
    'maxmemory-policy': 'noeviction',
    'maxmemory-clients': share(0.15),
    // One value fits above the data, so that no single command makes the kernel end the engine.
    'proto-max-bulk-len': `${Math.min(512, Math.floor(memoryMb * 0.2))}mb`,
    'sanitize-dump-payload': 'clients',
    // A script blocks everyone. After this time the platform can end it, well before its own calls are late.
    'busy-reply-threshold': 2000,
    'enable-protected-configs': 'no',
    'enable-debug-command': 'no',
    'enable-module-command': 'no',
  }
}
