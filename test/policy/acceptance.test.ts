import test from 'ava'
import { acceptance } from '../../policy/acceptance.ts'
import { heldCall } from '../../policy/patience.ts'

test('what nobody confirmed is undone long after everyone has answered, within 10 minutes', t => {
  t.is(acceptance.forgottenSeconds, 600)
  t.true((acceptance.lookMs + acceptance.confirmMs) * 4 < acceptance.forgottenSeconds * 1000)
})

test('nobody takes a command later than its caller waits for that', t => {
  t.is(heldCall.claimMs, 30_000)
})
