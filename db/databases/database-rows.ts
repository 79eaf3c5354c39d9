import type { EngineName } from '../../policy/databases/engine.ts'
import type { AppStatus } from '../apps/app-rows.ts'

export interface DatabaseRow {
  id: string
  owner_id: string
  name: string
  engine: EngineName
  /** Major version. */
  version: string
  /** Name of the image that it was created with; the stand-in for MongoDB has a name of its own. */
  image: string
  /** The image that it runs with, until it is upgraded to another one of this name; null = it was not started since rows keep it. */
  image_id: string | null
  ram_mb: number
  /** Of its plan and its host: more than `ram_mb` while a change to more memory waits or runs. */
  reserved_mb: number
  cpu: number
  host_id: string
  /** The same inside its container and outside; unique on its host. */
  port: number
  uid: number
  /** Of the volume that serves: `<id>-<generation>`. */
  generation: number
  /** The number that the next volume takes. */
  next_generation: number
  /** The volume before the last restore, retained until `retired_until`. */
  retired_generation: number | null
  retired_until: Date | null
  /** A rotation adds one (policy/databases/passwords.ts). */
  password_generation: number
  /** The server's certificate, PEM; null until its host has issued one. */
  certificate: string | null
  /** What customers read, PEM: key, certificate, authority; sealed. */
  client_sealed: Buffer | null
  certificate_ends_at: Date | null
  /** No renewal of the certificates is queued before; a failure moves it. */
  certificate_renew_at: Date | null
  /** Renewals in a row that were queued and have not succeeded. */
  renewal_failures: number
  /** Since when writes have ended because its disk is nearly full; null = they are admitted. */
  read_only_since: Date | null
  /** `deleted` while a deletion is queued or runs; restored when it fails. */
  desired_state: 'running' | 'stopped' | 'deleted'
  desired_if_kept: 'running' | 'stopped' | null
  status: AppStatus
  container_id: string | null
  started_at: Date | null
  boot_id: string | null
  exit_code: number | null
  exit_oom: boolean | null
  exit_at: Date | null
  /** Its last crash, also after a restart; null = there was none. */
  crash_code: number | null
  crash_oom: boolean | null
  crash_at: Date | null
  /** Of its last crashes within a day of the last one, the newest first; not all if there were many. */
  crash_times: readonly Date[]
  /** Crashes in a row: since it last ran for long. */
  restarts: number
  /** When the next restart after a crash is due; null = none. */
  restart_at: Date | null
  last_stats: unknown
  /** Since when its owner is warned of its memory; null = is not. */
  memory_warned_at: Date | null
  /** How many levels of its disk its owner is warned of (policy/databases/disk-levels.ts). */
  disk_warned: number
  /** When its owner is warned that there was no good snapshot for long; null = was warned. */
  snapshot_warn_at: Date | null
  /** The forgotten host that had its volume. */
  lost_with: string | null
  provisioned_at: Date | null
  created_at: Date
}

/** Columns by name: a prepared statement over `*` would break when a migration adds a column. */
export const databaseColumns = `id, owner_id, name, engine, version, image, image_id, ram_mb, reserved_mb, cpu, host_id, port, uid, generation, next_generation, retired_generation, retired_until,
  password_generation, certificate, client_sealed, certificate_ends_at, certificate_renew_at, renewal_failures, read_only_since, desired_state, desired_if_kept, status, container_id, started_at,
  boot_id, exit_code, exit_oom, exit_at, crash_code, crash_oom, crash_at, crash_times, restarts, restart_at, last_stats, memory_warned_at, disk_warned, snapshot_warn_at, lost_with, provisioned_at, created_at`
