import test from 'ava'
import { acceptance } from '../../policy/acceptance.ts'
import { commandTimeouts } from '../../policy/timeouts.ts'

test('unconfirmed operations are undone long after every answer, within 10 minutes', t => {
  t.is(acceptance.forgottenSeconds, 600)
  t.true((acceptance.lookMs + acceptance.confirmMs) * 4 < acceptance.forgottenSeconds * 1000)
})

test('no command is claimed later than its caller waits', t => {
  t.is(commandTimeouts.claimMs, 30_000)
})
