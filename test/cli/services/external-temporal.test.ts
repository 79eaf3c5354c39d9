import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { externalTemporalAnswers } from '../../../cli/services/temporal.ts'
import { parseConfig } from '../../../policy/config.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const temporal = await testTemporal()
const configOf = (settings: Record<string, string>) => parseConfig(settings, '/')

test('an external Temporal is accepted if it serves the namespace', async t => {
  await t.notThrowsAsync(externalTemporalAnswers(configOf({ TEMPORAL_ADDRESS: temporal.address })))
})

test('a Temporal that does not answer is reported with its address and its setting', async t => {
  const address = `127.0.0.1:${await unusedPort()}`
  await t.throwsAsync(externalTemporalAnswers(configOf({ TEMPORAL_ADDRESS: address }), 1000), {
    message: `Temporal at ${address} does not answer. It is set with TEMPORAL_ADDRESS: start it there, or remove the setting, and Berth starts its own.`,
  })
})

test('a missing namespace is reported with the command that creates it', async t => {
  const config = configOf({ TEMPORAL_ADDRESS: temporal.address, TEMPORAL_NAMESPACE: 'no-such-one' })
  await t.throwsAsync(externalTemporalAnswers(config), {
    message:
      /^Temporal at \S+ has no namespace "no-such-one": create it .*, or set TEMPORAL_NAMESPACE to another one\.$/,
  })
})

test('an address of another form is refused when it is read', t => {
  for (const address of [
    'http://temporal:7233',
    'temporal',
    'temporal:',
    'a b:7233',
    'temporal:99999',
    'user@temporal:7233',
  ])
    t.throws(() => configOf({ TEMPORAL_ADDRESS: address }), {
      message: /^The setting TEMPORAL_ADDRESS is ".*"; it must be host:port, such as/,
    })
  for (const address of ['temporal.internal:7233', '[::1]:7233', '10.0.0.1:80'])
    t.is(configOf({ TEMPORAL_ADDRESS: address }).temporalAddress, address)
  t.is(configOf({ TEMPORAL_ADDRESS: '' }).temporalAddress, '127.0.0.1:7233', 'empty, as Compose passes unset variables')
})
