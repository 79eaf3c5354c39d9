import test from 'ava'
import { databasePlace, leadsToHost, publishedAddress } from '../../../policy/databases/connection-url.ts'

const own = ['10.0.0.2', '203.0.113.2']

test('databases listen at the address of their setting, or at all of the machine', t => {
  const place = (bind: string, address = '10.0.0.2') => databasePlace({ domain: 'db.test', bind }, address, own)
  t.deepEqual(place('127.0.0.1'), { domain: 'db.test', addresses: ['127.0.0.1'] })
  t.deepEqual(place('203.0.113.2'), { domain: 'db.test', addresses: ['203.0.113.2'] })
  t.deepEqual(place('0.0.0.0'), { domain: 'db.test', addresses: ['10.0.0.2', '203.0.113.2'] })
  t.deepEqual(place('0.0.0.0', '192.0.2.1').addresses, ['192.0.2.1', ...own], 'an address that is forwarded to it')
  t.deepEqual(place('0.0.0.0', '127.0.0.1').addresses, [...own, '127.0.0.1'], 'others reach no loopback')
  t.deepEqual(place('0.0.0.0', '2001:db8::1').addresses, own, 'databases listen at IPv4 addresses')
})

const hostAt = (id: string, address: string, ...addresses: string[]) => ({
  id,
  address,
  database_domain: `${id}.test`,
  database_addresses: addresses,
})

test('next to other hosts a loopback address is not where databases of a host are', t => {
  const one = hostAt('one', '127.0.0.1', '127.0.0.1')
  const two = hostAt('two', '10.0.0.2', '127.0.0.1')
  t.false(leadsToHost(two, [one, two], ['127.0.0.1']), 'there it is the first host')
  t.is(publishedAddress(two, [one, two]), '10.0.0.2', 'refused there, and nobody else’s')
  t.true(leadsToHost(two, [two], ['127.0.0.1']), 'on the only machine')
  t.is(publishedAddress(two, [two]), '127.0.0.1')
  const three = hostAt('three', '127.0.0.1', '127.0.0.1')
  t.true(leadsToHost(three, [one, three], ['127.0.0.1']), 'both hosts are on one machine, with one set of ports')
})

test('a name leads only to where databases listen', t => {
  const host = hostAt('one', '10.0.0.2', '203.0.113.2')
  t.false(leadsToHost(host, [host], ['10.0.0.2']), 'the host, at an address without databases')
  t.false(leadsToHost(host, [host], ['127.0.0.1']), 'the client’s own machine')
  t.false(leadsToHost(host, [host], ['2001:db8::1']), 'databases listen at IPv4 addresses')
  t.false(leadsToHost(host, [host], []))
  t.true(leadsToHost(host, [host], ['203.0.113.2']))
  t.true(leadsToHost(host, [host], ['198.51.100.1']), 'something that forwards')
})
