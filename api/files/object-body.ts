import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import type { BorrowedBody, ObjectStore } from '../../activities/objects/port.ts'
import type { OpenedPart } from '../../db/objects/manifests.ts'
import type { ByteRange } from '../../lib/byte-range.ts'
import { CodedError } from '../../policy/errors.ts'
import { wholeBodyBytes } from '../../policy/request-caps.ts'

/** The store returned other bytes than were stored. */
class BodyDamaged extends Error {
  override name = 'BodyDamaged'
}

/**
 * The bytes of an object's manifest, or of a range of it. The length of every segment, and the checksum of those that are read whole,
 * are verified before their last bytes are sent, so that a damaged object never looks complete. Rejects when the first byte cannot be
 * read: with `BodyDamaged`, or PUBLIC_STORAGE_UNAVAILABLE.
 */
export async function openBody(
  store: ObjectStore,
  { size, parts }: Manifest,
  range: ByteRange | null,
  signalOf: () => AbortSignal,
): Promise<Buffer | BorrowedBody> {
  const stretches = stretchesOf(parts, range)
  const bytes = stretches.reduce((sum, stretch) => sum + stretch.length, 0)
  if (bytes !== (range ? range.to - range.from + 1 : size))
    throw new BodyDamaged('A manifest does not cover its object.')
  const [stretch] = stretches
  if (!stretch) return Buffer.alloc(0)
  if (bytes <= wholeBodyBytes && stretches.length === 1) return stretch.read(store).catch(unread)
  const signal = signalOf()
  const first = await stretch.open(store, signal).catch(unread)
  return flowing(first, stretches, store, signal)
}

/** The size of an object, and the segments that contain it. */
export interface Manifest {
  size: number
  parts: readonly OpenedPart[]
}

/** The part of one segment that is read. */
class Stretch {
  /** Within the segment, inclusive. */
  readonly from: number
  readonly to: number
  /** Of exactly these bytes; null when it is unknown. */
  readonly crc32: number | null

  constructor(
    readonly part: OpenedPart,
    from: number,
    to: number,
  ) {
    this.from = part.segmentFrom + from
    this.to = part.segmentFrom + to
    this.crc32 = this.from === 0 && this.to === part.segmentSize - 1 ? part.crc32 : null
  }

  get length(): number {
    return this.to - this.from + 1
  }

  async open(store: ObjectStore, signal: AbortSignal): Promise<BorrowedBody> {
    if (this.part.bytes) return Readable.from([await this.read(store)])
    return store.lend(this.part.segmentId, this.from, this.to, signal)
  }

  async read(store: ObjectStore): Promise<Buffer> {
    const fromRow = this.part.bytes?.subarray(this.from, this.to + 1)
    const bytes = fromRow ?? (await store.read(this.part.segmentId, this.from, this.length))
    this.assertStored(bytes.length, this.crc32 === null ? 0 : crc32(bytes))
    return bytes
  }

  /** Throws BodyDamaged unless count and checksum are those of the stored bytes. */
  assertStored(bytes: number, sum: number): void {
    if (bytes !== this.length || (this.crc32 !== null && this.crc32 !== sum))
      throw new BodyDamaged(`The segment ${this.part.segmentId} is not what was stored.`)
  }
}

function stretchesOf(parts: readonly OpenedPart[], range: ByteRange | null): Stretch[] {
  const { from, to } = range ?? { from: 0, to: Number.POSITIVE_INFINITY }
  return parts
    .map(part => ({ part, first: from - part.startsAt, last: to - part.startsAt }))
    .filter(({ part, first, last }) => part.length > 0 && first < part.length && last >= 0)
    .map(({ part, first, last }) => new Stretch(part, Math.max(first, 0), Math.min(last, part.length - 1)))
}

/** One segment after the other, each opened when it is needed. */
function flowing(first: BorrowedBody, stretches: Stretch[], store: ObjectStore, signal: AbortSignal): BorrowedBody {
  async function* bytes() {
    for (const [n, stretch] of stretches.entries())
      yield* checked(n === 0 ? first : await stretch.open(store, signal), stretch)
  }
  // A generator that never started closes nothing.
  return { [Symbol.asyncIterator]: bytes, destroy: () => first.destroy() }
}

/** Passes pieces on; the one that completes the stretch only if all of them are the stored bytes. */
async function* checked(pieces: BorrowedBody, stretch: Stretch): AsyncGenerator<Buffer> {
  let bytes = 0
  let sum = 0
  for await (const piece of pieces) {
    bytes += piece.length
    if (stretch.crc32 !== null) sum = crc32(piece, sum)
    if (bytes >= stretch.length) stretch.assertStored(bytes, sum)
    yield piece
  }
  stretch.assertStored(bytes, sum)
}

/** A missing or shorter body is damage; a store that does not answer may recover. */
function unread(cause: Error): never {
  if (cause instanceof BodyDamaged) throw cause
  const isMissing = cause.name === 'BodyNotFound' || cause instanceof RangeError
  throw isMissing
    ? new BodyDamaged('A stored body is missing.', { cause })
    : Object.assign(new CodedError('PUBLIC_STORAGE_UNAVAILABLE'), { cause })
}
