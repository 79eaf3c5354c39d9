import type { OperationRow } from '../../db/operations/operations.ts'
import type { SnapshotRow } from '../../db/snapshots/snapshots.ts'
import { expiryOf, type LinkedSnapshot, linkKey, linkPath } from '../../policy/apps/snapshot-links.ts'

/** What links are created with: the address of the files surface, and the key that signs them. */
export interface Linking {
  filesUrl: string
  secret: Buffer
}

/** The signed query string of a snapshot, and the address that contains it. */
export function linkView(row: SnapshotRow, { filesUrl, secret }: Linking) {
  const kind = row.target_type === 'app' ? 'applications' : 'databases'
  const linked: LinkedSnapshot = { kind, ownerId: row.owner_id, name: row.name, version: row.id }
  const key = linkKey(secret, linked, expiryOf(row.created_at))
  return { url: `${filesUrl}${linkPath(linked)}?${key}`, key }
}

/** Contract 6.17. */
export const snapshotView = (row: SnapshotRow, linking: Linking) => ({
  name: row.name,
  size: Number(row.size),
  modified: (row.finished_at ?? row.created_at).toISOString(),
  ...linkView(row, linking),
  version_id: row.id,
  runtime: row.runtime,
  origin: row.origin,
})

const states = { accepting: 'queued', queued: 'queued', running: 'running', success: 'success' } as const

/** The state of a restore (contract 6.23). */
export function restoreView(row: OperationRow) {
  const state = states[row.state as keyof typeof states]
  return {
    state: state ?? ('error' as const),
    step: row.state === 'running' ? (row.step ?? undefined) : undefined,
    ...(state ? {} : failureView(row)),
    started_at: row.started_at?.getTime(),
    finished_at: row.finished_at?.getTime(),
  }
}

interface Failure {
  code?: 'SNAPSHOT_CORRUPT' | 'RESTORE_INTERRUPTED' | 'SNAPSHOT_RESTORE_FAILED'
  message?: string
}

/** A release can fail in many ways, of which the state of a restore has three codes; the message names the actual one. */
function failureView({ code, message }: OperationRow): Failure {
  const text = message ?? undefined
  if (code === 'SNAPSHOT_CORRUPT') return { code: 'SNAPSHOT_CORRUPT', message: text }
  if (code === 'DEPLOY_CANCELLED' || code === 'RESTORE_INTERRUPTED')
    return { code: 'RESTORE_INTERRUPTED', message: text }
  return { code: 'SNAPSHOT_RESTORE_FAILED', message: code && text ? `${code}: ${text}` : text }
}
