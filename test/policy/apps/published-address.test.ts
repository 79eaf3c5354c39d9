import test from 'ava'
import { ownAddress, ownPort } from '../../../policy/apps/published-address.ts'

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

test('at its own address a release has a port of its own, the same at each start, of 27,000 from which engines choose too', t => {
  const release = { appId: 'a', number: 1, uid: 10_001, hostAddress: '127.0.39.17' }
  const port = ownPort(release)!
  t.is(ownPort({ ...release }), port)
  const next = ownPort({ ...release, number: 2 })!
  t.true(next === port + 1 || (port === 59_999 && next === 33_000))
  t.not(ownPort({ ...release, appId: 'b' }), port, 'another installation may have the same addresses')
  const all = new Set(Array.from({ length: 27_000 }, (_, number) => ownPort({ ...release, number })!))
  t.deepEqual([all.size, Math.min(...all), Math.max(...all)], [27_000, 33_000, 59_999])
  for (const hostAddress of ['127.0.0.1', '10.1.2.3', '127.0.39.18'])
    t.is(ownPort({ ...release, hostAddress }), undefined, hostAddress)
})
