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
  /** `deleted` from a deletion's first moment until it has failed. */
  desired_state: 'running' | 'stopped' | 'deleted'
  /** What is wanted if the deletion fails; null while there is none. */
  desired_if_kept: 'running' | 'stopped' | null
  status: AppStatus
  release: number
  next_release: number
  container_id: string | null
  host_port: number | null
  /** Where that port is published; null: at its host's address. */
  host_address: string | null
  started_at: Date | null
  boot_id: string | null
  exit_code: number | null
  exit_oom: boolean | null
  exit_at: Date | null
  last_autorestart_at: Date | null
  last_stats: unknown
  /** Counts every change of the application's variables. */
  variables_version: number
  /** The version that the container was started with; null before its first start. */
  variables_running: number | null
  /** The forgotten host that had its files, until a snapshot is restored. */
  lost_with: string | null
  /** What a failed deploy has left changed, in words, until another one succeeds. */
  undo_failure: string | null
  /** The operation that has left it. */
  undo_failed_by: string | null
  provisioned_at: Date | null
  created_at: Date
}

/** Columns by name: a prepared statement over `*` would break while a migration adds one. */
export const appColumns = `id, owner_id, name, description, language, version, runtime_version, ram_mb, cpu, subdomain, custom_domain,
  main, start_command, runtime_key, autorestart, host_id, uid, desired_state, desired_if_kept, status, release, next_release, container_id, host_port,
  host_address, started_at, boot_id, exit_code, exit_oom, exit_at, last_autorestart_at, last_stats, variables_version, variables_running,
  lost_with, undo_failure, undo_failed_by, provisioned_at, created_at`
