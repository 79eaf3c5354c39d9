import type { Health, HealthRestart } from '../../policy/hosts/health-checks.ts'
import type { Language } from '../../policy/runtimes.ts'

export type AppStatus = 'created' | 'starting' | 'running' | 'restarting' | 'exited' | 'deleting'

export interface AppRow {
  id: string
  owner_id: string
  name: string
  description: string | null
  language: Language
  version: string
  runtime_version: string
  ram_mb: number
  cpu: number
  subdomain: string | null
  custom_domain: string | null
  main: string | null
  start_command: string | null
  runtime_key: string | null
  autorestart: boolean
  host_id: string
  uid: number
  /** `deleted` while a deletion is queued or runs; restored when it fails. */
  desired_state: 'running' | 'stopped' | 'deleted'
  /** The desired state if the deletion fails; null without a deletion. */
  desired_if_kept: 'running' | 'stopped' | null
  status: AppStatus
  release: number
  /** Purges of its cache so far. */
  cache_version: number
  next_release: number
  container_id: string | null
  host_port: number | null
  /** The address that port is published at; null = that of its host. */
  host_address: string | null
  started_at: Date | null
  boot_id: string | null
  exit_code: number | null
  exit_oom: boolean | null
  exit_at: Date | null
  last_autorestart_at: Date | null
  /** HEALTH of its configuration; null = it is not checked. */
  health_path: string | null
  /** Of the run that `started_at` names; null until it is known. */
  health: Health | null
  health_restart: HealthRestart | null
  last_stats: unknown
  /** Counts changes of the application's variables. */
  variables_version: number
  /** The version that the container was started with; null before its first start. */
  variables_running: number | null
  /** The forgotten host that had its files, until a snapshot is restored. */
  lost_with: string | null
  /** What a failed deploy has changed and not undone, as text, until another one succeeds. */
  undo_failure: string | null
  /** The operation whose undo failed. */
  undo_failed_by: string | null
  provisioned_at: Date | null
  created_at: Date
}

/** Columns by name: a prepared statement over `*` would break when a migration adds a column. */
export const appColumns = `id, owner_id, name, description, language, version, runtime_version, ram_mb, cpu, subdomain, custom_domain,
  main, start_command, runtime_key, autorestart, host_id, uid, desired_state, desired_if_kept, status, release, next_release, container_id, host_port,
  host_address, started_at, boot_id, exit_code, exit_oom, exit_at, last_autorestart_at, health_path, health, health_restart, last_stats,
  variables_version, variables_running, lost_with, undo_failure, undo_failed_by, provisioned_at, created_at`
