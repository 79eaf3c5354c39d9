import { createHash } from 'node:crypto'
import type { Db } from '../../db/database.ts'
import {
  findKnownSegments,
  findStoredSegment,
  hashInlineBytes,
  listObjectsOfSegment,
  listStoredSegments,
  type StoredSegmentRow,
} from '../../db/objects/stored-bodies.ts'
import { installationMark } from '../../policy/ids.ts'
import { BodyNotFound, type ObjectStore } from './port.ts'

/** A body that is not as its row says. */
export interface Damage {
  id: string
  what: 'missing' | 'another size' | 'other bytes'
  /** Ids of objects that it is a part of. */
  objects: string[]
}

/** What was looked at so far, and what was found. */
export interface Verification {
  bodies: number
  bytes: number
  damaged: Damage[]
}

export interface VerifyOptions {
  /** Reads every body again and compares its SHA-256; otherwise only sizes are compared. */
  read: boolean
  /** Told after each body. */
  progress?(so: Verification): void
  signal?: AbortSignal
}

/** Compares every stored body with its row. What is removed while it looks is no damage. */
export async function verifyBodies(
  db: Db,
  store: ObjectStore,
  { read, progress = () => {}, signal }: VerifyOptions,
): Promise<Verification> {
  const so: Verification = { bodies: 0, bytes: 0, damaged: [] }
  for await (const row of listStoredSegments(db)) {
    signal?.throwIfAborted()
    const what = await (row.inlineBytes === null ? damageInStore(store, row, read) : damageBeside(db, row, read))
    if (what && (await findStoredSegment(db, row.id)))
      so.damaged.push({ id: row.id, what, objects: await listObjectsOfSegment(db, row.id) })
    so.bodies++
    so.bytes += row.size
    progress(so)
  }
  return so
}

async function damageInStore(
  store: ObjectStore,
  row: StoredSegmentRow,
  read: boolean,
): Promise<Damage['what'] | undefined> {
  const found = await store.head(row.id)
  if (!found) return 'missing'
  if (found.size !== row.size) return 'another size'
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

/** Of these ids of bodies that lay in the store, those that have no row: whoever wrote them was not this platform, or it lost its rows. */
export async function unknownBodies(db: Db, store: ObjectStore, ids: readonly string[]): Promise<string[]> {
  const known = await findKnownSegments(db, ids)
  const unknown: string[] = []
  // A row is there before its body and goes after it: what the sweep took meanwhile has neither.
  for (const id of ids) if (id !== installationMark && !known.has(id) && (await store.head(id))) unknown.push(id)
  return unknown
}
