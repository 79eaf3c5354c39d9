import test from 'ava'
import { databasePlace } from '../../../policy/databases/connection-url.ts'

const own = ['10.0.0.2', '203.0.113.2']

test('databases listen at the address of their setting, or at all of the machine', t => {
  const place = (bind: string, address = '10.0.0.2') => databasePlace({ domain: 'db.test', bind }, address, own)
  t.deepEqual(place('127.0.0.1'), { domain: 'db.test', addresses: ['127.0.0.1'] })
  t.deepEqual(place('203.0.113.2'), { domain: 'db.test', addresses: ['203.0.113.2'] })
  t.deepEqual(place('0.0.0.0'), { domain: 'db.test', addresses: ['10.0.0.2', '203.0.113.2'] })
  t.deepEqual(place('0.0.0.0', '192.0.2.1').addresses, ['192.0.2.1', ...own], 'an address that is forwarded to it')
})
