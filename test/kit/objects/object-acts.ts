import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import type { Caller } from '../../../api/pipeline/authenticate.ts'
import type { Services } from '../../../api/services.ts'
import { withReservedStorage } from '../../../api/uploads/storage-charge.ts'
import { discard } from '../../../api/uploads/uploads.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { foldUsage } from '../../../db/objects/blob-usage.ts'
import { changeObject, copyObject, moveObject } from '../../../db/objects/object-changes.ts'
import { putObject } from '../../../db/objects/object-puts.ts'
import {
  findObject,
  removeExpired,
  removeObjects,
  type StorageCharge,
  storeObject,
} from '../../../db/objects/objects.ts'
import { abortUpload, completeUpload, reclaimUpload } from '../../../db/objects/uploads/upload-ends.ts'
import { listUploadParts, storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { endSlotLease, takeSlotLease } from '../../../db/slot-leases.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { ObjectName } from '../../../policy/objects/object-names.ts'
import { bytesOf, storageLimit } from './object-bytes.ts'
import type { Act } from './object-model.ts'
import { nameIn, type ObjectProcess, S3Acts } from './object-s3-acts.ts'
import type { Sweeps } from './object-sweeps.ts'

const long = new Date(0)

/** How the acts on objects of one account are done: as the API and the upkeep do them. */
export class ObjectActs {
  readonly #s3: S3Acts

  constructor(
    readonly ownerId: string,
    readonly store: ObjectStore,
    readonly sweeps: Sweeps,
  ) {
    this.#s3 = new S3Acts(ownerId)
  }

  /** Performs an act in one of the processes, and returns the client's answer. Throws CodedError if that is a code. */
  async do(act: Act, process: ObjectProcess): Promise<string> {
    switch (act.kind) {
      case 'put':
        return this.#put(act, process)
      case 'part':
        return this.#part(act, process)
      case 'copy':
        return this.#copy(act, process)
      case 's3copy':
        return this.#s3.copy(act, process)
      case 's3delete':
        return this.#s3.delete(act, process)
      case 's3complete':
        return this.#s3.complete(act, process)
      case 'tag':
        return this.#s3.tag(act, process)
      case 'share':
        return this.#s3.share(act, process)
      case 'complete':
        return this.#complete(act.upload, process)
      case 'sweep':
        await this.sweeps.sweep(process.db, this.store)
        return 'done'
      default:
        return transaction(process.db, trx => this.#change(trx, act))
    }
  }

  name(text: string): ObjectName {
    return nameIn(this.ownerId, text)
  }

  async #put(act: Extract<Act, { kind: 'put' }>, process: ObjectProcess): Promise<string> {
    const { db } = process
    const object = { ...this.name(act.name), contentType: 'x', etag: act.segment }
    // Small puts of S3 take no slot.
    const takesSlot = act.wire === 'blob' || !act.inline
    const lease = takesSlot ? await takeSlotLease(db, `upload/${this.ownerId}`, 16) : undefined
    const { body, bytes } = await this.#arrived(act.segment, act.inline)
    const part = { segmentId: act.segment, length: body.size, body, bytes }
    const { ownerId } = this
    const entry = {
      accountId: ownerId,
      actor: ownerId,
      action: 'objects.upload',
      resource: act.segment,
      result: 'success',
    }
    const ending = { lease, entry: { ...entry, operationId: null } }
    try {
      if (act.wire === 's3') return outcomeOf(await this.#s3.put(act, { object, part, ending }, process))
      const replacing = act.overwrite ? await findObject(db, object) : undefined
      const stored = await this.#withReservedStorage(process, body.size, replacing?.size, charge => {
        const options = { overwrite: act.overwrite, charge, ending }
        if (!replacing) return putObject(db, object, part, options)
        return transaction(db, trx => storeObject(trx, object, [part], options))
      })
      return outcomeOf(stored)
    } catch (error) {
      await this.#discard(process, act.segment, bytes)
      if (lease) await endSlotLease(db, lease)
      throw error
    }
  }

  async #part(act: Extract<Act, { kind: 'part' }>, process: ObjectProcess): Promise<string> {
    const { body } = await this.#arrived(act.segment, false)
    const part = { uploadId: act.upload, part: act.part, segmentId: act.segment, body, limit: storageLimit }
    const outcome = await transaction(process.db, trx => storeUploadPart(trx, part))
    if (outcome !== 'stored') await this.#discard(process, act.segment)
    return outcome
  }

  async #copy(
    { from, to, overwrite }: Extract<Act, { kind: 'copy' | 'move' }>,
    process: ObjectProcess,
  ): Promise<string> {
    const { db } = process
    const source = await findObject(db, this.name(from))
    if (!source) return 'none'
    const replacing = overwrite ? await findObject(db, this.name(to)) : undefined
    const stored = await this.#withReservedStorage(process, source.size, replacing?.size, charge =>
      transaction(db, trx => copyObject(trx, this.name(from), this.name(to), { overwrite, charge })),
    )
    return stored ? outcomeOf(stored) : 'none'
  }

  async #complete(id: string, process: ObjectProcess): Promise<string> {
    const { db } = process
    const open = () => db('uploads').where({ id, state: 'open' }).first()
    const upload = await open()
    if (!upload) return 'over'
    const parts = await listUploadParts(db, id)
    if (parts.length === 0 && !(await open())) return 'over'
    const size = notNone(parts).reduce((sum, part) => sum + part.size, 0)
    const at = { ownerId: this.ownerId, bucket: upload.bucket, key: upload.key }
    const replacing = upload.overwrite ? await findObject(db, at) : undefined
    const write = (charge: StorageCharge) =>
      transaction(db, trx =>
        completeUpload(trx, { id, ownerId: this.ownerId }, { choose: notNone, options: { charge } }),
      )
    const stored = await this.#withReservedStorage(process, size, replacing?.size, write, id)
    return stored ? outcomeOf(stored) : 'over'
  }

  async #change(trx: Db, act: Act): Promise<string> {
    switch (act.kind) {
      case 'remove':
      case 'tidy': {
        const at = act.names.map(name => this.name(name))
        const removed = await (act.kind === 'remove' ? removeObjects(trx, at) : removeExpired(trx, at))
        return `removed ${removed.map(row => `${row.bucket} ${row.key}`).sort()}`
      }
      case 'move': {
        const moved = await moveObject(trx, this.name(act.from), this.name(act.to), act)
        return moved ? outcomeOf(moved) : 'none'
      }
      case 'expire':
        return (await changeObject(trx, this.name(act.name), { expiresAt: long })) ? 'changed' : 'none'
      case 'header':
        return (await changeObject(trx, this.name(act.name), { cacheControl: act.header })) ? 'changed' : 'none'
      case 'abort':
        await abortUpload(trx, { id: act.upload, ownerId: this.ownerId })
        return 'done'
      case 'reclaim':
        return (await reclaimUpload(trx, act.upload, -60)) ? 'ended' : 'over'
      default:
        await foldUsage(trx, this.ownerId)
        return 'done'
    }
  }

  /** Segments that have arrived and are not referenced yet. A segment in its row is in no store. */
  async #arrived(segment: string, inline: boolean) {
    const bytes = bytesOf(segment)
    if (!inline) return { body: await this.store.put(segment, Readable.from([bytes], { objectMode: false })) }
    const md5 = createHash('md5').update(bytes).digest('hex')
    return { body: { size: bytes.length, sha256: segment, md5, crc32: 7 }, bytes }
  }

  #withReservedStorage<T>(
    process: ObjectProcess,
    size: number,
    replaced: number | null = null,
    write: (charge: StorageCharge) => Promise<T>,
    completing?: string,
  ): Promise<T> {
    const caller = { user: { id: this.ownerId }, plan: { blobGb: storageLimit / 1024 ** 3 } }
    const bytes = { size, replaced, completing }
    return withReservedStorage(process as unknown as Services, caller as unknown as Caller, bytes, write)
  }

  #discard({ db }: ObjectProcess, segmentId: string, bytes?: Buffer): Promise<void> {
    const failed = (failure: { err: unknown }) => {
      throw failure.err
    }
    return discard({ db, store: this.store, log: { warn: failed } } as unknown as Services, { segmentId, bytes })
  }
}

const outcomeOf = ({ replaced }: { replaced: boolean }): string => (replaced ? 'replaced' : 'stored')

function notNone<T>(parts: readonly T[]): readonly T[] {
  if (parts.length === 0) throw new CodedError('NO_CHUNKS_UPLOADED')
  return parts
}
