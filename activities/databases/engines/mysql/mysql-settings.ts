import { MiB } from '../../../../lib/bytes.ts'
import { openFilesFor } from '../../../../policy/apps/sizes.ts'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import { connectionsOf } from '../../../../policy/databases/engines.ts'
import { certificateFiles, type DatabaseTraits, places } from '../../port.ts'

const settingsFile = 'my.cnf'
const usersFile = 'users.sql'
export const dataFolder = `${places.data}/mysql`

export const socketFile = 'mysqld.sock'

/** Our accounts: known by the user of the process at the other end of the socket, so they have no password and no way in over the network. */
export const platformUsers = {
  /** Of host processes that are root. */
  root: 'berth_host',
  /** Of processes with the engine's own user: those in its container, and host processes that are not root. */
  engine: 'berth_platform',
} as const

const shareOf = (memoryMb: number, share: number, unitMb = 1): string =>
  `${Math.max(unitMb, Math.floor((memoryMb * share) / unitMb) * unitMb)}M`

/** Settings of the server. `loose_` is for what not every build knows. */
function options(traits: DatabaseTraits): Record<string, string | number> {
  const { memoryMb, port, readOnly, isScratch = false } = traits
  const { atPort, inAll } = connectionsOf('mysql', memoryMb)
  return {
    datadir: dataFolder,
    socket: `${places.run}/${socketFile}`,
    pid_file: `${places.run}/mysqld.pid`,
    // Temporary tables and sorts would soon fill /tmp, which is in memory.
    tmpdir: places.data,
    port,
    bind_address: '0.0.0.0',
    loose_mysqlx: 'OFF',
    skip_name_resolve: 'ON',
    // Many customers may come through one address, which failed connections of one of them must not block.
    host_cache_size: 0,

    require_secure_transport: 'ON',
    ssl_ca: `${places.settings}/${certificateFiles.authority}`,
    ssl_cert: `${places.settings}/${certificateFiles.certificate}`,
    ssl_key: `${places.settings}/${certificateFiles.key}`,
    auto_generate_certs: 'OFF',
    caching_sha2_password_auto_generate_rsa_keys: 'OFF',
    loose_sha256_password_auto_generate_rsa_keys: 'OFF',
    authentication_policy: '*',
    partial_revokes: 'ON',

    local_infile: 'OFF',
    secure_file_priv: 'NULL',
    loose_federated: 'OFF',
    // Without a file its log goes to the standard error.
    log_error_verbosity: 2,
    // The authority signed itself; there are no RSA keys; what a container may use is in this file.
    log_error_suppression_list: 'MY-010068,MY-010284,MY-015655',
    general_log: 'OFF',
    slow_query_log: 'OFF',
    // Nothing reads it: there is no replica, and snapshots are dumps. It would double every write.
    skip_log_bin: 'ON',

    // Only our accounts may write then; customers cannot give themselves that right.
    read_only: readOnly ? 'ON' : 'OFF',

    open_files_limit: openFilesFor(memoryMb),
    table_open_cache: Math.floor((openFilesFor(memoryMb) - inAll) / 2),
    max_connections: inAll,
    max_user_connections: atPort,
    innodb_buffer_pool_chunk_size: 16 * MiB,
    innodb_buffer_pool_size: shareOf(memoryMb, 0.37, 16),
    innodb_redo_log_capacity: '128M',
    innodb_log_buffer_size: '16M',
    loose_innodb_numa_interleave: 'OFF',
    // The kernel's requests are one supply for all containers of a host, and an engine that gets none does not start.
    innodb_use_native_aio: 'OFF',
    temptable_max_ram: shareOf(memoryMb, 0.03),
    tmp_table_size: '16M',
    max_heap_table_size: '16M',
    performance_schema: memoryMb < 2048 ? 'OFF' : 'ON',
    ...(isScratch && unsynced),
  }
}

const unsynced = { innodb_flush_log_at_trx_commit: 0, innodb_doublewrite: 'OFF' } as const

/** Statements, one a line, with which the server makes its first accounts: only processes at its socket can log in. */
const firstUsers = [
  "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so';",
  ...Object.entries({ [platformUsers.root]: 'root', [platformUsers.engine]: 'berth' }).flatMap(([user, process]) => [
    `CREATE USER '${user}'@'localhost' IDENTIFIED WITH auth_socket AS '${process}';`,
    `GRANT ALL ON *.* TO '${user}'@'localhost' WITH GRANT OPTION;`,
  ]),
  "DROP USER 'root'@'localhost';",
  `CREATE DATABASE \`${customerUser}\`;`,
]

/** Text files by name. */
export function mysqlSettings(traits: DatabaseTraits): Record<string, string> {
  const lines = Object.entries(options(traits)).map(([name, value]) => `${name} = ${value}`)
  return {
    [settingsFile]: ['[mysqld]', ...lines, ''].join('\n'),
    [usersFile]: [...firstUsers, ''].join('\n'),
  }
}

const serve = ['mysqld', `--defaults-file=${places.settings}/${settingsFile}`]

export const mysqlCommand = (): string[] => [...serve]

/** The name appears when the folder is complete; the host syncs it. */
export const mysqlInitialise = (): string[][] => {
  const make = `${serve.join(' ')} --datadir=${dataFolder}.new --initialize-insecure --init-file=${places.settings}/${usersFile}`
  const steps = `rm -rf ${dataFolder}.new && ${make} && mv ${dataFolder}.new ${dataFolder}`
  return [['sh', '-c', `test -d ${dataFolder} || { ${steps}; }`]]
}
