import { randomFillSync } from 'node:crypto'

/** The system is asked for many ids at once: that costs more than the rest of an id. */
const pool = Buffer.alloc(4096)
let next = pool.length

/** So many bytes that nobody can guess, at most 4096, each given out once. */
export function randomBytes(count: number): Buffer {
  if (next + count > pool.length) {
    randomFillSync(pool)
    next = 0
  }
  const bytes = Buffer.from(pool.subarray(next, next + count))
  pool.fill(0, next, next + count)
  next += count
  return bytes
}
