import type { OperatedDatabase } from '../../db/databases/database-operator.ts'
import type { HostRow } from '../../db/hosts/hosts.ts'
import { columns } from '../terminal/terminal.ts'
import { engineWords, isStandIn, stateOf } from './database-state.ts'

export type HostsById = ReadonlyMap<string, HostRow>

/** `berth databases list` for people. */
export function databaseTable(databases: readonly OperatedDatabase[], hosts: HostsById, now: Date): string {
  if (databases.length === 0) return 'No databases.'
  const head = ['ID', 'NAME', 'OWNER', 'ENGINE', 'MEMORY', 'HOST', 'PORT', 'CERTIFICATE', 'STATE']
  const rows = databases.map(database => [
    database.id,
    database.name,
    database.owner_email,
    engineWords(database),
    `${database.ram_mb} MB`,
    database.host_id,
    String(database.port),
    certificateWords(database.certificate_ends_at, now),
    stateOf(database, hosts.get(database.host_id), now).words,
  ])
  return columns([head, ...rows], '')
}

function certificateWords(endsAt: Date | null, now: Date): string {
  if (!endsAt) return 'none yet'
  const day = endsAt.toISOString().slice(0, 10)
  return endsAt <= now ? `EXPIRED ${day}` : `until ${day}`
}

/** The same as one entry for scripts: exactly these keys, which docs/json-output.md lists. */
export function databaseView(database: OperatedDatabase, host: HostRow | undefined, now: Date) {
  const { id, name, owner_id, owner_email, engine, version, ram_mb: memory_mb, host_id, port, pending } = database
  const { status, desired_state, certificate_ends_at, created_at } = database
  const { restarts, restart_at, exit_code, exit_oom, exit_at, started_at } = database
  const { crash_code, crash_oom, crash_at } = database
  const { state, words: summary } = stateOf(database, host, now)
  return {
    ...{ id, name, owner_id, owner_email, engine, version, stand_in: isStandIn(database), memory_mb, host_id, port },
    ...{ state, summary, status, desired_state, started_at, exit_code, exit_oom, exit_at, restarts, restart_at },
    ...{ crash_code, crash_oom, crash_at },
    operation: pending,
    ...{ certificate_ends_at, created_at },
  }
}
