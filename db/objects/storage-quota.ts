import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { GiB, MiB } from '../../lib/bytes.ts'
import { CodedError, Refusal } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { leaseSeconds, storageRenewSeconds } from '../../policy/leases.ts'
import { type Db, transaction } from '../database.ts'
import { foldUsage, readTakenBytes } from './blob-usage.ts'
import { LeaseLost, type StorageCharge } from './objects.ts'
import { readOpenParts } from './uploads/uploads.ts'

/** Leased in advance where there is plenty, so that small uploads of one account need no shared row. */
const sliceBytes = 64 * MiB
/** With less left than this, a lease covers only its one write, so that the limit holds to the byte. */
const plentyBytes = GiB
/** A slice is given back after this, so that no write is refused because of bytes that stay unused. */
const sliceSeconds = 10
const lookMs = 5000

/** One lease that this process has on an account's storage. */
interface Lease {
  id: string
  ownerId: string
  /** Bytes that no write has reserved. */
  free: number
  /** Objects that the account had room for when this was leased, without those that writes of this process have added. */
  objects: number
  /** Writes in progress. */
  writes: number
  since: number
  renewed: number
}

export interface StorageRequest {
  ownerId: string
  /** The maximum that the write may add. */
  bytes: number
  /** What the account's plan includes, bytes. */
  limit: number
  /** How many objects the write adds, as far as is known, and how many the account may have. */
  objects: number
  maxObjects: number
  /** Id of the open upload that the write completes: its parts become the object. */
  completing?: string
}

/**
 * Enforces the storage limit of accounts: bytes are leased before a body arrives, and settled in the object's own transaction. The sum of
 * stored and leased bytes never exceeds the limit, over all processes; parts of open uploads are subtracted from it before. Objects are
 * counted when bytes are leased: what an account adds in the time of a slice by several processes may exceed their number.
 */
export class StorageQuota {
  readonly #db: Db
  /** The lease that the next small write of an account takes from. */
  readonly #open = new Map<string, Lease>()
  readonly #leases = new Map<string, Lease>()
  readonly #reservations = new KeyedLock()
  #timer: NodeJS.Timeout | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /**
   * Runs a write with its bytes reserved, and gives them back when it is refused. A write whose lease expired before its commit, because
   * the process was suspended, is retried once with a new lease. Throws STORAGE_QUOTA_EXCEEDED before it starts.
   */
  async charging<T>(request: StorageRequest, write: (charge: StorageCharge) => Promise<T>): Promise<T> {
    try {
      return await this.#attempt(request, write)
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error
      return this.#attempt(request, write)
    }
  }

  async #attempt<T>(request: StorageRequest, write: (charge: StorageCharge) => Promise<T>): Promise<T> {
    const lease = await this.#reserve(request)
    try {
      return await write({ leaseId: lease.id, bytes: request.bytes })
    } catch (error) {
      // After any other error the write may have been committed: the bytes stay leased until the lease ends.
      if (error instanceof LeaseLost) this.#drop(lease)
      else if (error instanceof Refusal) {
        lease.free += request.bytes
        lease.objects += request.objects
      }
      throw error
    } finally {
      lease.writes--
      if (lease.writes === 0 && this.#open.get(lease.ownerId) !== lease)
        await this.#end(lease).catch(ignoreError('the lease expires'))
    }
  }

  /** Its bytes may have been leased to other processes. */
  #drop(lease: Lease): void {
    lease.free = 0
    if (this.#open.get(lease.ownerId) === lease) this.#open.delete(lease.ownerId)
  }

  /** Gives back unused leases; writes in progress keep theirs. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    const open = [...this.#open.values()]
    this.#open.clear()
    for (const lease of open) if (lease.writes === 0) await this.#end(lease).catch(ignoreError('the lease expires'))
  }

  async #reserve(request: StorageRequest): Promise<Lease> {
    const lease = this.#take(request)
    if (lease) return lease
    // Concurrent writes wait here, and then usually find a slice.
    return this.#reservations.run(request.ownerId, async () => this.#take(request) ?? this.#lease(request))
  }

  #take({ ownerId, bytes, objects }: StorageRequest): Lease | undefined {
    const lease = this.#open.get(ownerId)
    if (!lease || lease.free < bytes || lease.objects < objects || isOver(lease)) return undefined
    lease.free -= bytes
    lease.objects -= objects
    lease.writes++
    return lease
  }

  async #lease(request: StorageRequest): Promise<Lease> {
    const { ownerId, bytes, limit, completing, objects, maxObjects } = request
    const before = this.#open.get(ownerId)
    this.#open.delete(ownerId)
    const id = newId()
    const granted = await transaction(this.#db, async trx => {
      const room = maxObjects - (await foldUsage(trx, ownerId)).objects - this.#writesOf(ownerId)
      await trx('quota_leases').where({ owner_id: ownerId }).where('expires_at', '<=', trx.fn.now()).delete()
      if (before) await shrink(trx, before)
      const open = await readOpenParts(trx, ownerId, completing)
      const left = limit - (await readTakenBytes(trx, ownerId)) - open.bytes
      if (bytes > 0 && left < bytes) return 'no bytes'
      if (objects > 0 && room < objects) return 'no objects'
      const size = left - bytes >= plentyBytes ? bytes + sliceBytes : bytes
      await trx('quota_leases').insert({ id, owner_id: ownerId, bytes: size, expires_at: leaseEnd(trx) })
      return { bytes: size, objects: room }
    })
    if (before) {
      before.free = 0
      if (before.writes === 0) this.#leases.delete(before.id)
    }
    if (granted === 'no bytes') throw new CodedError('STORAGE_QUOTA_EXCEEDED')
    if (granted === 'no objects') throw tooManyObjects()
    const free = { free: granted.bytes - bytes, objects: granted.objects - objects }
    const lease = { id, ownerId, ...free, writes: 1, since: Date.now(), renewed: Date.now() }
    this.#leases.set(id, lease)
    if (lease.free > 0) this.#open.set(ownerId, lease)
    this.#watch()
    return lease
  }

  /** Writes in progress: objects of these are not counted yet. */
  #writesOf(ownerId: string): number {
    const leases = [...this.#leases.values()].filter(lease => lease.ownerId === ownerId)
    return leases.reduce((sum, { writes }) => sum + writes, 0)
  }

  async #end({ id }: Lease): Promise<void> {
    this.#leases.delete(id)
    await this.#db('quota_leases').where({ id }).delete()
  }

  #watch(): void {
    this.#timer ??= setInterval(() => void this.#look().catch(ignoreError('the next look tries again')), lookMs).unref()
  }

  /** Ends slices that are over, and renews the leases of writes in progress. */
  async #look(): Promise<void> {
    for (const lease of this.#leases.values()) {
      const isOpen = this.#open.get(lease.ownerId) === lease
      if (isOpen && isOver(lease)) this.#open.delete(lease.ownerId)
      if (lease.writes === 0 && (!isOpen || isOver(lease))) await this.#end(lease)
    }
    const due = [...this.#leases.values()].filter(({ renewed }) => Date.now() - renewed > storageRenewSeconds * 1000)
    const ids = due.map(({ id }) => id)
    if (ids.length > 0)
      await this.#db('quota_leases')
        .whereIn('id', ids)
        .update({ expires_at: leaseEnd(this.#db) })
    for (const lease of due) lease.renewed = Date.now()
    if (this.#leases.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** The refusal of an account that has as many objects as its plan includes. */
export const tooManyObjects = (): CodedError =>
  new CodedError(
    'STORAGE_QUOTA_EXCEEDED',
    'The account has as many objects as its plan allows: delete some, or choose a larger plan.',
  )

const isOver = ({ since }: Lease): boolean => Date.now() - since > sliceSeconds * 1000
const leaseEnd = (db: Db) => db.raw('now() + make_interval(secs => ?)', [leaseSeconds.storage])

/** Gives back the unreserved bytes of a lease, or all of it when it has no writes. */
async function shrink(trx: Db, { id, free, writes }: Lease): Promise<void> {
  if (writes === 0) await trx('quota_leases').where({ id }).delete()
  else await trx('quota_leases').where({ id }).decrement('bytes', free)
}
