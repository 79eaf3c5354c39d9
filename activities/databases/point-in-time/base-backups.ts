import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGzip } from 'node:zlib'
import type { Db } from '../../../db/database.ts'
import { recordBackup } from '../../../db/databases/point-in-time/backups.ts'
import type { CopiedVolume } from '../../../db/databases/point-in-time/copies.ts'
import { newId } from '../../../policy/ids.ts'
import { inNewSegment } from '../../objects/new-segment.ts'
import type { ObjectStore } from '../../objects/port.ts'
import type { LocalEngine } from '../port.ts'
import type { PointInTimeEngine } from './port.ts'

export interface BackupOptions {
  db: Db
  store: Pick<ObjectStore, 'put'>
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
}

/**
 * Copies the data of a running engine into the object store, compressed and without a copy on disk, and records them as a base backup of
 * this volume. An interrupted one leaves a segment to the sweep.
 */
export async function storeBaseBackup(
  { db, store, held }: BackupOptions,
  volume: CopiedVolume,
  adapter: PointInTimeEngine,
  local: LocalEngine,
  signal: AbortSignal,
): Promise<void> {
  const { rows } = await db.raw('select clock_timestamp() as now')
  await held()
  await inNewSegment(db, async segmentId => {
    const ended = new AbortController()
    const within = AbortSignal.any([signal, ended.signal])
    const tar = new PassThrough()
    const take = taker(tar)
    const zip = createGzip({ level: constants.Z_BEST_SPEED })
    const work = [
      adapter.backup(local, take).then(async start => {
        tar.end()
        return start
      }),
      pipeline(tar, zip, { signal: within }),
      store.put(segmentId, zip, { signal: within }),
    ] as const
    for (const part of work)
      part.catch(error => {
        ended.abort(error)
        tar.destroy(error)
      })
    // All of them have ended before the segment is given up.
    await Promise.allSettled(work)
    const [start, , stored] = await Promise.all(work).catch(error => {
      throw signal.aborted ? signal.reason : (ended.signal.reason ?? error)
    })
    const fromAt = await adapter.now(local)
    await held()
    const row = { id: newId(), ...volume, ...start, segmentId, ...stored }
    if (!(await recordBackup(db, { ...row, beganAt: rows[0].now, fromAt })))
      throw new Error('The object store has lost it meanwhile.')
  })
}

/** Writes pieces; the promise settles once the stream takes more. All pieces of that time share it. */
function taker(stream: PassThrough): (piece: Buffer) => Promise<void> | undefined {
  let waiting: Promise<void> | undefined
  return piece => {
    if (stream.destroyed) return Promise.reject(stream.errored ?? new Error('The base backup has ended.'))
    if (stream.write(piece)) return undefined
    waiting ??= new Promise<void>((resolve, reject) => {
      const ended = () => reject(stream.errored ?? new Error('The base backup has ended.'))
      stream.once('close', ended).once('drain', () => {
        stream.off('close', ended)
        waiting = undefined
        resolve()
      })
    })
    return waiting
  }
}
