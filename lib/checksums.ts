import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { crc32 } from 'node:zlib'
import { crc32c } from '@node-rs/crc32'

export type ChecksumAlgorithm = CrcAlgorithm | 'SHA1' | 'SHA256'

/** Those whose checksum of a whole follows from the checksums of its parts. */
export type CrcAlgorithm = 'CRC32' | 'CRC32C' | 'CRC64NVME'

/** A checksum of bytes that arrive piece by piece. `digest` ends it, and is big-endian: 4, 8, 20 or 32 bytes. */
export interface Checksum {
  update(bytes: Uint8Array): void
  digest(): Buffer
}

/** Begins a checksum of no bytes. */
export function checksum(algorithm: ChecksumAlgorithm): Checksum {
  if (algorithm === 'CRC32') return crcOf32(crc32)
  if (algorithm === 'CRC32C') return crcOf32(crc32c)
  if (algorithm === 'CRC64NVME') return crcOf64()
  return createHash(algorithm)
}

function crcOf32(next: (bytes: Uint8Array, crc: number) => number): Checksum {
  let crc = 0
  return {
    update: bytes => {
      // zlib forgets its CRC over no bytes that have no address.
      if (bytes.length > 0) crc = next(bytes, crc)
    },
    digest: () => bytesOf('CRC32', [0, crc]),
  }
}

// The module of this one algorithm takes 8 ms of a start, the whole library 50.
const { createCRC64 } = createRequire(import.meta.url)('hash-wasm/dist/crc64.umd.min.js') as Pick<
  typeof import('hash-wasm'),
  'createCRC64'
>
/** All checksums share one instance, because starting one is asynchronous and takes 128 KiB. Each keeps its state, 12 bytes. */
let crc64: Awaited<ReturnType<typeof createCRC64>>
let empty: Uint8Array

/** Resolves once CRC64NVME can be calculated. A process that serves it waits for it at its start. */
export const checksumsReady = createCRC64('9a6c9329ac4bc9b5').then(hasher => {
  crc64 = hasher
  empty = hasher.save()
})

function crcOf64(): Checksum {
  let state = empty
  return {
    update: bytes => {
      state = crc64.load(state).update(bytes).save()
    },
    digest: () => Buffer.from(crc64.load(state).digest('binary')),
  }
}

/**
 * A polynomial over GF(2), as CRCs are written: the constant term is the highest bit. In halves, because numbers have
 * 32 bits to calculate with, and BigInt is 8 times slower. The high half of a CRC of 32 bits is 0.
 */
type Polynomial = readonly [high: number, low: number]

/** What a CRC is calculated in: the remainders of a division by `modulus`. */
interface Ring {
  bits: 32 | 64
  /** Without its highest term. */
  modulus: Polynomial
  /** By which 1, 2, 4, 8, ... bytes that follow multiply a CRC. */
  powers: readonly Polynomial[]
}

function ring(bits: 32 | 64, modulus: Polynomial): Ring {
  const powers = [term(bits, 8)]
  while (2 ** powers.length <= Number.MAX_SAFE_INTEGER)
    powers.push(product({ bits, modulus }, powers.at(-1)!, powers.at(-1)!))
  return { bits, modulus, powers }
}

const rings: Record<CrcAlgorithm, Ring> = {
  CRC32: ring(32, [0, 0xedb88320]),
  CRC32C: ring(32, [0, 0x82f63b78]),
  CRC64NVME: ring(64, [0x9a6c9329, 0xac4bc9b5]),
}

/** x to the power of `exponent`, which is below 32. */
function term(bits: 32 | 64, exponent: number): Polynomial {
  const half = 1 << (31 - exponent)
  return bits === 64 ? [half, 0] : [0, half]
}

function product(
  { bits, modulus }: Omit<Ring, 'powers'>,
  [oneHigh, oneLow]: Polynomial,
  other: Polynomial,
): Polynomial {
  let [shiftedHigh, shiftedLow] = other
  let high = 0
  let low = 0
  for (let bit = bits - 1; bit >= 0; bit--) {
    if ((bit < 32 ? oneLow >>> bit : oneHigh >>> (bit - 32)) & 1) {
      high ^= shiftedHigh
      low ^= shiftedLow
    }
    const isOver = shiftedLow & 1
    shiftedLow = (shiftedLow >>> 1) | (shiftedHigh << 31)
    shiftedHigh >>>= 1
    if (isOver) {
      shiftedHigh ^= modulus[0]
      shiftedLow ^= modulus[1]
    }
  }
  return [high, low]
}

/** The factor by which `bytes` following bytes multiply a CRC. */
function powerOf(ring: Ring, bytes: number): Polynomial {
  let power = term(ring.bits, 0)
  for (let rest = bytes, n = 0; rest > 0; rest = Math.floor(rest / 2), n++)
    if (rest % 2 === 1) power = product(ring, power, ring.powers[n]!)
  return power
}

/**
 * The CRC of parts that follow each other, from their CRCs and their sizes in bytes; of no parts, that of no bytes. 10,000 parts take
 * 10 ms, and 200 ms if each has another size. Throws a RangeError for a digest of another length.
 */
export function combinedChecksum(algorithm: CrcAlgorithm, parts: readonly { digest: Buffer; size: number }[]): Buffer {
  const ring = rings[algorithm]
  // Most parts of an upload have one size.
  const powers = new Map<number, Polynomial>()
  let sum: Polynomial = [0, 0]
  for (const { digest, size } of parts) {
    const power = powers.get(size) ?? powerOf(ring, size)
    powers.set(size, power)
    const [high, low] = product(ring, power, sum)
    const [partHigh, partLow] = polynomialOf(ring, digest)
    sum = [high ^ partHigh, low ^ partLow]
  }
  return bytesOf(algorithm, sum)
}

function polynomialOf({ bits }: Ring, digest: Buffer): Polynomial {
  if (digest.length * 8 !== bits) throw new RangeError(`A CRC of ${bits} bits cannot have ${digest.length} bytes.`)
  return bits === 64 ? [digest.readUInt32BE(0), digest.readUInt32BE(4)] : [0, digest.readUInt32BE(0)]
}

function bytesOf(algorithm: CrcAlgorithm, [high, low]: Polynomial): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeInt32BE(high | 0, 0)
  bytes.writeInt32BE(low | 0, 4)
  return bytes.subarray(8 - rings[algorithm].bits / 8)
}
