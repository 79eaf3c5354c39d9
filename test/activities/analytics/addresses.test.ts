import test from 'ava'
import { addressReader, openAddressReader } from '../../../activities/analytics/addresses.ts'
import { AddressSet } from '../../../lib/addresses.ts'
import { stands } from '../../../policy/network/analytics-terms.ts'

test('addresses of the settings stand for the platform, single ones and networks, and no other', async t => {
  const own = ['8.8.4.4', '2001:4860:4860::/64', '200.160.0.0/24', 'db.internal']
  const read = await openAddressReader({ countryDatabase: null, asnDatabase: null, own })
  for (const address of ['8.8.4.4', '2001:4860:4860::8888', '200.160.0.8', '127.0.0.1', 'fe80::1', ''])
    t.deepEqual(read(address), { shown: stands.platform, country: 'XX', city: null, provider: stands.platform })
  for (const address of ['8.8.8.8', '2001:4860:4860:1::8888', '200.160.2.3']) t.is(read(address).shown, address)
})

test('an address of IPv4 that came over a listener of IPv6 is that of IPv4', t => {
  const own = new AddressSet(['8.8.4.4'])
  const countries = (address: string) =>
    address === '200.160.2.3' ? { country: 'BR', city: null, asn: null, network: null } : null
  const read = addressReader({ countries, networks: null, own })
  t.like(read('::ffff:200.160.2.3'), { shown: '200.160.2.3', country: 'BR' })
  t.is(read('::ffff:8.8.4.4').shown, stands.platform)
  t.is(read('::ffff:10.0.0.1').shown, stands.platform)
})
