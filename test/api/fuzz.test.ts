import test from 'ava'
import { testApi } from '../kit/actors/api.ts'
import { fuzzed, operations, pastBounds } from '../kit/fuzz/api-fuzz.ts'

const api = testApi()

test.serial('requests that the documents allow are never a 500, and a 400 only because of the state', async t => {
  const seed = 20_260_901
  t.log(`seed ${seed}`)
  t.deepEqual(await fuzzed(api(), { seed, rounds: 25, withinMs: 12_000 }), [])
  t.true(operations.length > 60)
})

test.serial('every bound in the documents is enforced', async t => {
  const { faults, calls } = await pastBounds(api(), 7)
  t.deepEqual(faults, [])
  t.log(`${calls} calls`)
  t.true(calls > 300)
})
