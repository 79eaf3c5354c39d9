import { connectionsOf } from '../../../../policy/databases/engines.ts'
import { pointInTimeRules } from '../../../../policy/databases/point-in-time.ts'
import { certificateFiles, type DatabaseTraits, places } from '../../port.ts'
import { archiveScript, fetchScript, noArchiveScript, scripts } from './point-in-time/archive-script.ts'

/** The platform's role: the one superuser. It logs in through the socket, by the identity of the local process. */
export const platformRole = 'berth_platform'

/** Of the role that loads a dump: no superuser, because what it loads may call functions of the customer. It exists only meanwhile. */
export const loaderPrefix = 'berth_loader_'

/** The data folder of Postgres; it refuses to use the root of a volume. */
export const dataFolder = `${places.data}/pg`

export const configFile = `${places.settings}/postgresql.conf`

/** Files in the folder of settings. */
export const postgresSettings = (traits: DatabaseTraits): Record<string, string> => ({
  'postgresql.conf': `${Object.entries(parameters(traits))
    .map(([name, value]) => `${name} = '${value}'`)
    .join('\n')}\n`,
  'pg_hba.conf': hba,
  'pg_ident.conf': identities,
  [scripts.archive]: traits.archives ? archiveScript : noArchiveScript,
  [scripts.fetch]: fetchScript,
})

/** The first line that matches decides. Roles that customers create log in as their own does. */
const hba = `\
# type   database  user             address  method
local    all       ${platformRole}            peer map=platform
local    all       "/^${loaderPrefix}[0-9a-f]{16}$"  peer map=platform
local    replication  ${platformRole}         peer map=platform
local    all       all                       reject
host     all       ${platformRole}   all      reject
hostssl  all       all              all      scram-sha-256
host     all       all              all      reject
`

/** The host's process, and jobs in a container. Their names are in the file of users that is bound into the container. */
const identities = `\
platform  root   ${platformRole}
platform  berth  ${platformRole}
platform  berth  "/^${loaderPrefix}[0-9a-f]{16}$"
`

function parameters(traits: DatabaseTraits): Record<string, string | number> {
  const { memoryMb, port, readOnly, archives = false, isScratch = false } = traits
  const { atPort, inAll } = connectionsOf('postgres', memoryMb)
  const share = (part: number) => `${Math.floor(memoryMb * part)}MB`
  return {
    data_directory: dataFolder,
    hba_file: `${places.settings}/pg_hba.conf`,
    ident_file: `${places.settings}/pg_ident.conf`,
    listen_addresses: '*',
    port,
    unix_socket_directories: places.run,
    unix_socket_permissions: '0700',
    tcp_keepalives_idle: 60,
    tcp_keepalives_interval: 10,
    tcp_keepalives_count: 6,
    // Who only connects occupies a connection for this long.
    authentication_timeout: '20s',
    password_encryption: 'scram-sha-256',
    ssl: 'on',
    ssl_cert_file: `${places.settings}/${certificateFiles.certificate}`,
    ssl_key_file: `${places.settings}/${certificateFiles.key}`,
    ssl_min_protocol_version: 'TLSv1.2',
    max_connections: inAll,
    // For the platform. It limits every role of the customer, after a change of memory too, which a limit of a role would not follow.
    superuser_reserved_connections: inAll - atPort,
    max_locks_per_transaction: Math.max(64, Math.ceil(locks / inAll)),
    shared_buffers: share(0.25),
    effective_cache_size: share(0.6),
    work_mem: '4MB',
    maintenance_work_mem: share(0.06),
    autovacuum_work_mem: share(0.03),
    huge_pages: 'off',
    dynamic_shared_memory_type: 'posix',
    // A compiled query costs more memory than it saves time here, and the images have no compiler.
    jit: 'off',
    max_wal_size: `${Math.min(4096, Math.max(512, Math.floor(memoryMb / 2)))}MB`,
    // What becomes of a finished file is up to the script, so that the setting takes effect without a restart.
    wal_level: 'replica',
    archive_mode: 'on',
    archive_command: `sh ${places.settings}/${scripts.archive} %p %f`,
    archive_timeout: archives ? pointInTimeRules.maxFileSeconds : 0,
    // A session can set it for itself, on purpose: to make room.
    default_transaction_read_only: readOnly ? 'on' : 'off',
    // Settings come from these files only.
    allow_alter_system: 'off',
    logging_collector: 'off',
    log_destination: 'stderr',
    log_line_prefix: '%m [%p] %u@%d ',
    log_timezone: 'UTC',
    timezone: 'UTC',
    lc_messages: 'C',
    default_text_search_config: 'pg_catalog.english',
    ...(isScratch && unsynced),
  }
}

/** A dump locks every table in one transaction. The list of this many takes 7 MB. */
const locks = 20_000

const unsynced = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' } as const
