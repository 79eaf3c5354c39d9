import test from 'ava'
import { ownAddress } from '../../../policy/apps/own-address.ts'

test('on loopback each application publishes at its own address, elsewhere at that of its host', t => {
  const uids = [10_001, 10_002, 10_255, 10_256, 65_535, 65_536, 2 ** 24 - 2]
  const addresses = uids.map(uid => ownAddress('127.0.0.1', uid, 'linux'))
  t.is(addresses[0], '127.0.39.17')
  t.is(addresses.at(-1), '127.255.255.254')
  t.is(new Set([...addresses, '127.0.0.1']).size, uids.length + 1)
  t.is(ownAddress('127.0.0.1', 2 ** 24 - 1, 'linux'), '127.0.0.1')
  t.is(ownAddress('10.1.2.3', 10_001, 'linux'), '10.1.2.3')
  t.is(ownAddress('127.0.0.1', 10_001, 'darwin'), '127.0.0.1')
})
