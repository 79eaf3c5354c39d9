import test from 'ava'
import { edgePlace } from '../../../policy/installation/edge-place.ts'

test('a proxy is named by its setting, else as its host', t => {
  t.deepEqual(edgePlace({}), { name: 'local', location: null })
  t.deepEqual(edgePlace({ HOST_NAME: 'host-2' }), { name: 'host-2', location: null })
  t.deepEqual(edgePlace({ HOST_NAME: 'host-2', EDGE_NAME: 'lis1', EDGE_LOCATION: 'São Paulo, BR' }), {
    name: 'lis1',
    location: { city: 'São Paulo', country: 'BR' },
  })
})

test('names that could not be in a line of the log, and places without a country, are refused by their setting', t => {
  for (const name of ['a"b', 'a b', '$status', 'n'.repeat(65), 'a\nb']) {
    t.throws(() => edgePlace({ EDGE_NAME: name }), { message: /EDGE_NAME/ })
    t.throws(() => edgePlace({ HOST_NAME: name }), { message: /HOST_NAME/ })
  }
  for (const text of ['Lisbon', 'Lisbon, Portugal', ', PT', 'Lisbon, pt', 'a"b, PT'])
    t.throws(() => edgePlace({ EDGE_LOCATION: text }), { message: /EDGE_LOCATION/ })
})
