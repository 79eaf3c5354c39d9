import { performance } from 'node:perf_hooks'
import test from 'ava'
import fc from 'fast-check'
import { GiB } from '../../lib/bytes.ts'
import {
  type Checksum,
  type ChecksumAlgorithm,
  type CrcAlgorithm,
  checksum,
  checksumsReady,
  combinedChecksum,
} from '../../lib/checksums.ts'

test.before(() => checksumsReady)

const crcs: readonly CrcAlgorithm[] = ['CRC32', 'CRC32C', 'CRC64NVME']
const algorithms: readonly ChecksumAlgorithm[] = [...crcs, 'SHA1', 'SHA256']

function checksumOf(algorithm: ChecksumAlgorithm, ...pieces: Uint8Array[]): Buffer {
  const whole = checksum(algorithm)
  for (const piece of pieces) whole.update(piece)
  return whole.digest()
}

/** Longer than what the libraries take at once, and of no round size. */
const bytes = fc
  .tuple(fc.uint8Array({ maxLength: 40 }), fc.integer({ min: 0, max: 1200 }))
  .map(([some, times]) => Buffer.concat([...Array<Uint8Array>(times).fill(some), Buffer.of(times & 255)]))
const pieces = fc.array(fc.oneof(bytes, fc.constant(Buffer.alloc(0))), { maxLength: 6 })

test('the published check values', t => {
  // https://reveng.sourceforge.io/crc-catalogue/ for the CRCs.
  const published: Record<ChecksumAlgorithm, string> = {
    CRC32: 'cbf43926',
    CRC32C: 'e3069283',
    CRC64NVME: 'ae8b14860a799888',
    SHA1: 'f7c3bc1d808e04732adf679965ccc34ca7ae3441',
    SHA256: '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225',
  }
  for (const algorithm of algorithms)
    t.is(checksumOf(algorithm, Buffer.from('123456789')).toString('hex'), published[algorithm], algorithm)
})

test('a digest in base64 is what S3 sends', t => {
  const sent: Record<ChecksumAlgorithm, string> = {
    CRC32: 'i9aeUg==',
    CRC32C: 'crUfeA==',
    CRC64NVME: 'OOJZ0D8xKts=',
    SHA1: 'e1AsOh9IyGCa4hLN+2Od7jlnP14=',
    SHA256: 'ZOyIygCyaOW6GjVnihtTFtIS9PNmskdyMlNKiuyjfzw=',
  }
  for (const algorithm of algorithms)
    t.is(checksumOf(algorithm, Buffer.from('Hello world')).toString('base64'), sent[algorithm], algorithm)
})

test('no bytes have a checksum, and change none', t => {
  // zlib would forget what it has calculated: these have no address.
  const none = new Uint8Array(new ArrayBuffer(0))
  for (const algorithm of crcs) t.deepEqual(checksumOf(algorithm), Buffer.alloc(algorithm === 'CRC64NVME' ? 8 : 4))
  for (const algorithm of algorithms) {
    t.deepEqual(checksumOf(algorithm), checksumOf(algorithm, none))
    t.deepEqual(checksumOf(algorithm, none, Buffer.from('a'), none), checksumOf(algorithm, Buffer.from('a')))
  }
})

test('pieces have the checksum of the whole, while others are calculated', t => {
  const property = fc.property(fc.constantFrom(...algorithms), pieces, (algorithm, ours) => {
    const begun: Checksum[] = [checksum(algorithm), checksum(algorithm)]
    for (const piece of ours) {
      begun[0]!.update(piece)
      begun[1]!.update(Buffer.from('another'))
    }
    t.deepEqual(begun[0]!.digest(), checksumOf(algorithm, Buffer.concat(ours)))
    t.deepEqual(begun[1]!.digest(), checksumOf(algorithm, Buffer.from('another'.repeat(ours.length))))
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

test('the CRC of a whole follows from those of its parts', t => {
  const property = fc.property(fc.constantFrom(...crcs), pieces, (algorithm, ours) => {
    const parts = ours.map(part => ({ digest: checksumOf(algorithm, part), size: part.length }))
    t.deepEqual(combinedChecksum(algorithm, parts), checksumOf(algorithm, Buffer.concat(ours)))
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

test('parts of many GiB are combined in any grouping', t => {
  const size = fc.oneof(fc.integer({ min: 0, max: 10 * GiB }), fc.constantFrom(2 ** 31, 2 ** 32 - 1, 2 ** 32, 10 * GiB))
  const part = fc.record({ digest: fc.uint8Array({ minLength: 8, maxLength: 8 }), size })
  const property = fc.property(fc.constantFrom(...crcs), part, part, part, (algorithm, ...sized) => {
    const [one, other, last] = sized.map(({ digest, size }) => ({
      digest: Buffer.from(digest.subarray(algorithm === 'CRC64NVME' ? 0 : 4)),
      size,
    }))
    const first = { digest: combinedChecksum(algorithm, [one!, other!]), size: one!.size + other!.size }
    t.deepEqual(combinedChecksum(algorithm, [first, last!]), combinedChecksum(algorithm, [one!, other!, last!]))
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

test('64 MiB that were calculated, from parts of 1 MiB and in doubled steps', t => {
  const part = Buffer.alloc(1 << 20, 'part')
  for (const algorithm of crcs) {
    const whole = checksumOf(algorithm, ...Array<Buffer>(64).fill(part))
    const one = { digest: checksumOf(algorithm, part), size: part.length }
    t.deepEqual(combinedChecksum(algorithm, Array(64).fill(one)), whole, algorithm)
    let doubled = one
    for (let n = 0; n < 6; n++)
      doubled = { digest: combinedChecksum(algorithm, [doubled, doubled]), size: 2 * doubled.size }
    t.deepEqual(doubled.digest, whole, algorithm)
  }
})

test('10,000 parts of different sizes take well under a second', t => {
  for (const algorithm of crcs) {
    const digest = Buffer.alloc(algorithm === 'CRC64NVME' ? 8 : 4, 7)
    const parts = Array.from({ length: 10_000 }, (_, n) => ({ digest, size: 10 * GiB - n }))
    // The time of this process: other tests run alongside it.
    const before = process.cpuUsage()
    const from = performance.now()
    combinedChecksum(algorithm, parts)
    const { user, system } = process.cpuUsage(before)
    const ms = Math.min((user + system) / 1000, performance.now() - from)
    t.true(ms < 900, `${algorithm}: ${Math.round(ms)} ms`)
  }
})

test('a digest of another algorithm is refused', t => {
  for (const [algorithm, length] of [
    ['CRC32', 8],
    ['CRC64NVME', 4],
    ['CRC32C', 3],
  ] as const)
    t.throws(() => combinedChecksum(algorithm, [{ digest: Buffer.alloc(length), size: 1 }]), { instanceOf: RangeError })
})
