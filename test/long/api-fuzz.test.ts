import { randomInt } from 'node:crypto'
import test from 'ava'
import { testApi } from '../kit/actors/api.ts'
import { fuzzed } from '../kit/fuzz/api-fuzz.ts'

const api = testApi()

test('requests that the documents allow, for a long time', async t => {
  const seed = randomInt(2 ** 31)
  t.log(`seed ${seed}`)
  t.deepEqual(await fuzzed(api(), { seed, rounds: 1000, withinMs: 20 * 60_000 }), [])
})
