import test from 'ava'
import { z } from 'zod'
import { filterFields } from '../../../policy/network/filters.ts'

const schema = z.object(filterFields)

test('filters have the form of what is stored', t => {
  const forms: Partial<Record<keyof typeof filterFields, Record<string, string>>> = {
    country: { br: 'BR' },
    ip: {
      '2001:0DB8:0:0::0001': '2001:db8::1',
      '2001:db8:0:1:1:1:1:1': '2001:db8:0:1:1:1:1:1',
      '::ffff:200.160.2.3': '200.160.2.3',
      '200.160.2.3': '200.160.2.3',
    },
    protocol: { 'http/1.1': 'HTTP/1.1', 'HTTP/2.0': 'HTTP/2.0', unknown: 'Unknown', 'x/1': 'x/1' },
    referer: { 'News.Example': 'news.example', Direct: 'Direct', Unknown: 'Unknown', direct: 'direct' },
    content_type: { 'Text/HTML': 'text/html', Unknown: 'Unknown' },
    path: { '/A': '/A', '/a\nb\u007f': '/a\nb\u007f' },
    os: { macOS: 'macOS' },
  }
  for (const [name, values] of Object.entries(forms))
    for (const [given, stored] of Object.entries(values))
      t.deepEqual(schema.parse({ [name]: given }), { [name]: stored }, `${name} ${given}`)
})

test('an address with a zone or a network is no filter', t => {
  for (const ip of ['fe80::1%eth0', '2001:db8::/32', '1.2.3.4/32', ' 1.2.3.4', '1.2'])
    t.false(schema.safeParse({ ip }).success, ip)
})
