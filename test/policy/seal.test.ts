import test from 'ava'
import { seal, sealKeys, unseal } from '../../policy/seal.ts'

const master = 'ab'.repeat(32)
const [second, third] = ['12'.repeat(32), '34'.repeat(32)]
const one = sealKeys(master)
const two = sealKeys(master, `2:${second}`)
const three = sealKeys(master, ` 3:${third}, 2:${second}`)
const words = [
  'A sealed secret names a key that this installation does not have.',
  'Unsupported state or unable to authenticate data',
]

test('the highest number seals and is the first byte; every key that is held reads', t => {
  t.deepEqual([one.current, two.current, three.current], [1, 2, 3])
  for (const keys of [one, two, three]) {
    const sealed = seal(keys, 'geheim ☃', 'row/1')
    t.is(sealed[0], keys.current)
    t.is(unseal(three, sealed, 'row/1'), 'geheim ☃')
    t.false(sealed.includes('geheim'))
  }
  t.is(unseal(one, seal(one, '', 'row/1'), 'row/1'), '')
  t.notDeepEqual(seal(one, 'the same', 'row/1'), seal(one, 'the same', 'row/1'))
})

test('values that were sealed before there were further keys stay readable', t => {
  // Written by the version that knew one key only.
  const old = Buffer.from('ARuJAnuq2jBCdid0zZNOg0k6Qj29RAauhcN2vwyLCqnEQyWT', 'base64')
  t.is(unseal(two, old, 'git_webhooks/a/token'), 'a token')
})

test('a changed byte, another row and a missing key are refused without showing the text', t => {
  const sealed = seal(two, 'secret', 'row/1')
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at] = changed[at]! ^ 1
    t.throws(() => unseal(two, changed, 'row/1'), undefined, `byte ${at}`)
  }
  const refusals = [
    () => unseal(two, sealed, 'row/2'),
    () => unseal(one, sealed, 'row/1'),
    () => unseal(two, sealed.subarray(0, 20), 'row/1'),
    () => unseal(two, Buffer.alloc(0), 'row/1'),
    () => unseal(sealKeys(master, `2:${third}`), sealed, 'row/1'),
  ]
  for (const refusal of refusals) t.true(words.includes(t.throws(refusal)?.message ?? ''))
})

test('an invalid setting is refused with its name, and not shown', t => {
  const wrong = ['2', '2:abc', `1:${second}`, `256:${second}`, `2:${second},2:${third}`, `02:${second}`, second]
  for (const text of wrong) {
    const error = t.throws(() => sealKeys(master, text), { message: /BERTH_SEAL_KEYS/ }, text)
    t.false(error?.message.includes(second), text)
  }
})
