import test from 'ava'
import { randomBytes } from '../../lib/random-bytes.ts'

test('bytes are returned once, also when the pool is refilled, and stay unchanged', t => {
  const drawn = Array.from({ length: 2000 }, (_, n) => randomBytes(1 + (n % 40)))
  const kept = drawn.map(bytes => bytes.toString('hex'))
  const long = kept.filter(text => text.length >= 16)
  t.is(new Set(long).size, long.length)
  t.deepEqual(
    drawn.map(bytes => bytes.length),
    kept.map((_, n) => 1 + (n % 40)),
  )
  for (let n = 0; n < 300; n++) randomBytes(16)
  t.deepEqual(
    drawn.map(bytes => bytes.toString('hex')),
    kept,
  )
  const whole = Buffer.concat(drawn)
  const seen = new Set(whole)
  t.is(seen.size, 256, 'every byte comes up among forty thousand')
})
