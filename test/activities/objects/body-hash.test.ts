import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { BodyHash } from '../../../activities/objects/body-hash.ts'
import { KiB, MiB } from '../../../lib/bytes.ts'

const hex = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('hex')
const hashesOf = (bytes: Buffer) => ({ md5: hex('md5', bytes), sha256: hex('sha256', bytes) })

/** Adds bytes in steps, each from one buffer that is overwritten afterwards, as a connection may do. */
async function hashed(bytes: Buffer, step: number) {
  const hash = new BodyHash()
  const chunk = Buffer.alloc(step)
  for (let at = 0; at < bytes.length; at += step) {
    const length = bytes.copy(chunk, 0, at, at + step)
    await hash.add(chunk.subarray(0, length))
    chunk.fill(0)
  }
  return hash.digest()
}

test('bodies of every size and step have the hashes of their bytes', async t => {
  const bytes = randomBytes(2 * MiB)
  for (const size of [0, 1, 256 * KiB - 1, 256 * KiB, 256 * KiB + 1, 512 * KiB, 2 * MiB])
    for (const step of [1000, 64 * KiB, 256 * KiB, 700 * KiB])
      t.deepEqual(await hashed(bytes.subarray(0, size), step), hashesOf(bytes.subarray(0, size)), `${size} by ${step}`)
})

test('MD5 is left out of a large body for which nobody needs it', async t => {
  const bytes = randomBytes(MiB)
  const hash = new BodyHash({ md5: false })
  await hash.add(bytes)
  t.deepEqual(await hash.digest(), { md5: '', sha256: hex('sha256', bytes) })
})

test('bodies that arrive concurrently are kept apart, and one that is dropped affects no other', async t => {
  const bodies = Array.from({ length: 12 }, (_, n) => randomBytes(MiB + n * 1000))
  const dropped = new BodyHash()
  await dropped.add(randomBytes(MiB))
  const hashing = bodies.map((bytes, n) => hashed(bytes, 10_000 + n))
  dropped.drop()
  t.deepEqual(await Promise.all(hashing), bodies.map(hashesOf))
})

test('the process answers others while a large body is hashed', async t => {
  const hash = new BodyHash()
  const bytes = Buffer.alloc(32 * MiB)
  let turns = 0
  let isOver = false
  const others = (async () => {
    while (!isOver) {
      await sleep(0)
      turns++
    }
  })()
  await hash.add(bytes)
  t.deepEqual(await hash.digest(), hashesOf(bytes))
  isOver = true
  await others
  t.true(turns > 5, `${turns} turns`)
})
