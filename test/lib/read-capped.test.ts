import { Readable } from 'node:stream'
import test from 'ava'
import { readCapped } from '../../lib/read-capped.ts'

test('a stream is read whole up to its limit, and closed beyond it', async t => {
  const stream = (...pieces: string[]) => Readable.from(pieces.map(piece => Buffer.from(piece)))
  t.is(String(await readCapped(stream('ab', 'c'), 3)), 'abc')
  t.is(String(await readCapped(null, 3)), '')
  const long = stream('ab', 'cd', 'ef')
  t.is(await readCapped(long, 3), null)
  t.true(long.destroyed)
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from('a')
      throw new Error('torn')
    })(),
  )
  await t.throwsAsync(readCapped(broken, 3), { message: 'torn' })
})
