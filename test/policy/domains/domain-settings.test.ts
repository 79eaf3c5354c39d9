import test from 'ava'
import { domainSettings } from '../../../policy/domains/domain-settings.ts'

const directory = { ACME_DIRECTORY_URL: 'https://ca.example/directory' }

test('without settings there is no authority, no name server, and the system resolves', t => {
  t.deepEqual(domainSettings({}), {
    acme: null,
    acmeDnsDomain: null,
    dnsPort: 53,
    publicAddresses: [],
    publicPort: 80,
    dnsServers: [],
  })
})

test('every setting is read', t => {
  const settings = domainSettings({
    ...directory,
    ACME_EMAIL: 'ops@example.com',
    ACME_EAB_KID: 'kid-1',
    ACME_EAB_HMAC: 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W',
    ACME_CA_BUNDLE: '/etc/ca.pem',
    ACME_DNS_DOMAIN: 'ACME.example.com.',
    EDGE_DNS_PORT: '5353',
    EDGE_PUBLIC_ADDRESSES: '192.0.2.1, 2001:db8::/64,10.0.0.0/8',
    EDGE_PUBLIC_PORT: '8080',
    DNS_SERVERS: '192.0.2.53,127.0.0.1:5353, 2001:db8::53,[2001:db8::53]:53',
  })
  t.deepEqual(settings, {
    acme: {
      directoryUrl: 'https://ca.example/directory',
      email: 'ops@example.com',
      externalAccount: { keyId: 'kid-1', hmacKey: 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W' },
      caBundle: '/etc/ca.pem',
    },
    acmeDnsDomain: 'acme.example.com',
    dnsPort: 5353,
    publicAddresses: ['192.0.2.1', '2001:db8::/64', '10.0.0.0/8'],
    publicPort: 8080,
    dnsServers: ['192.0.2.53', '127.0.0.1:5353', '2001:db8::53', '[2001:db8::53]:53'],
  })
})

test('a wrong setting is named', t => {
  const rows: [name: string, values: string[]][] = [
    ['ACME_DIRECTORY_URL', ['http://ca.example/directory', 'ca.example', 'ftp://ca.example']],
    ['ACME_DNS_DOMAIN', ['acme', 'a_b.example', '*.example.com', 'https://a.example']],
    ['EDGE_DNS_PORT', ['0', '65536', 'dns', '-1']],
    ['EDGE_PUBLIC_PORT', ['0', '1.5']],
    ['EDGE_PUBLIC_ADDRESSES', ['example.com', '192.0.2.1/33', '192.0.2', '::/129', '192.0.2.1,']],
    ['DNS_SERVERS', ['ns.example.com', '192.0.2.1:0', '192.0.2.1:65536', '192.0.2.1:', '[::1', '192.0.2.1 192.0.2.2']],
  ]
  for (const [name, values] of rows)
    for (const value of values.filter(text => text !== '192.0.2.1,'))
      t.throws(() => domainSettings({ ...directory, [name]: value }), { message: new RegExp(name) }, `${name}=${value}`)
  t.notThrows(() => domainSettings({ EDGE_PUBLIC_ADDRESSES: '192.0.2.1,' }))
})

test('an account needs a directory, and an external account both of its halves; no error repeats its key', t => {
  t.throws(() => domainSettings({ ACME_EMAIL: 'a@example.com' }), { message: /ACME_DIRECTORY_URL is missing/ })
  t.throws(() => domainSettings({ ...directory, ACME_EAB_KID: 'x' }), { message: /ACME_EAB_HMAC is missing/ })
  t.throws(() => domainSettings({ ...directory, ACME_EAB_HMAC: 'a'.repeat(43) }), {
    message: /ACME_EAB_KID is missing/,
  })
  const wrong = { ...directory, ACME_EAB_KID: 'x', ACME_EAB_HMAC: 'not a key at all' }
  t.false(t.throws(() => domainSettings(wrong)).message.includes('not a key'))
})
