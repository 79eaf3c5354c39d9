import { randomFillSync } from 'node:crypto'

/** Random bytes are fetched for many ids together: the system call costs more than the rest of an id. */
const pool = Buffer.alloc(4096)
let next = pool.length

/** Returns `count` cryptographically random bytes, at most 4096; none is returned twice. */
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
