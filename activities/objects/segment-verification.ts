import { createHash } from 'node:crypto'
import type { Db } from '../../db/database.ts'
import {
  findKnownSegments,
  findStoredSegment,
  hashInlineBytes,
  listObjectsOfSegment,
  listStoredSegments,
  type StoredSegmentRow,
} from '../../db/objects/stored-segments.ts'
import { installationMark } from '../../policy/ids.ts'
import { BodyNotFound, type ObjectStore } from './port.ts'

/** A stored body that differs from its row. */
export interface Damage {
  id: string
  what: 'missing' | 'another size' | 'other bytes'
  /** Ids of the objects that contain it. */
  objects: string[]
}

/** What was checked so far, and the damage that was found. */
export interface Verification {
  bodies: number
  bytes: number
  damaged: Damage[]
}

export interface VerifyOptions {
  /** Reads every body again and compares its SHA-256; otherwise only sizes are compared. */
  read: boolean
  /** Called after each body. */
  onProgress?(state: Verification): void
  signal?: AbortSignal
}

/** Compares every stored body with its row. A body that is removed meanwhile is not damage. */
export async function verifyBodies(
  db: Db,
  store: ObjectStore,
  { read, onProgress = () => {}, signal }: VerifyOptions,
): Promise<Verification> {
  const state: Verification = { bodies: 0, bytes: 0, damaged: [] }
  for await (const row of listStoredSegments(db)) {
    signal?.throwIfAborted()
    const what = await (row.inlineBytes === null ? damageInStore(store, row, read) : damageBeside(db, row, read))
    if (what && (await findStoredSegment(db, row.id)))
      state.damaged.push({ id: row.id, what, objects: await listObjectsOfSegment(db, row.id) })
    state.bodies++
    state.bytes += row.size
    onProgress(state)
  }
  return state
}

async function damageInStore(
  store: ObjectStore,
  row: StoredSegmentRow,
  read: boolean,
): Promise<Damage['what'] | undefined> {
  const head = await store.head(row.id)
  if (!head) return 'missing'
  if (head.size !== row.size) return 'another size'
  if (!read || row.size === 0) return undefined
  try {
    const hash = createHash('sha256')
    for await (const chunk of await store.get(row.id)) hash.update(chunk as Buffer)
    return hash.digest('hex') === row.sha256 ? undefined : 'other bytes'
  } catch (error) {
    if (error instanceof BodyNotFound) return 'missing'
    throw error
  }
}

async function damageBeside(db: Db, row: StoredSegmentRow, read: boolean): Promise<Damage['what'] | undefined> {
  if (row.inlineBytes !== row.size) return 'another size'
  return read && (await hashInlineBytes(db, row.id)) !== row.sha256 ? 'other bytes' : undefined
}

/** Filters ids of bodies in the store to those without a row: another platform wrote them, or this one lost its rows. */
export async function unknownBodies(db: Db, store: ObjectStore, ids: readonly string[]): Promise<string[]> {
  const segments = await findKnownSegments(db, ids)
  const unknown: string[] = []
  // A row is created before its body and removed after it: what the sweep removed meanwhile has neither.
  for (const id of ids) if (id !== installationMark && !segments.has(id) && (await store.head(id))) unknown.push(id)
  return unknown
}
