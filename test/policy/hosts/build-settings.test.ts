import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { buildSettings, proxyFactWithout } from '../../../policy/hosts/build-settings.ts'
import { proxyEndpoint } from '../../../policy/hosts/proxy-address.ts'

const loopbackNames = [
  'localhost.',
  'a.localhost.',
  'ip6-localhost',
  'ip6-loopback',
  'localhost6',
  'localhost.localdomain',
]
const settings = (env: Record<string, string>) => buildSettings(env, '/srv')

test('builds trust the files of the service, unless BUILD_CA_BUNDLE names another or none', t => {
  t.deepEqual(settings({}).authorities, [])
  const service = { NODE_EXTRA_CA_CERTS: '/etc/corp.pem', SSL_CERT_FILE: 'own.pem' }
  t.deepEqual(settings(service).authorities, [
    { setting: 'NODE_EXTRA_CA_CERTS', path: '/etc/corp.pem' },
    { setting: 'SSL_CERT_FILE', path: '/srv/own.pem' },
  ])
  t.deepEqual(settings({ ...service, BUILD_CA_BUNDLE: '/etc/builds.pem' }).authorities, [
    { setting: 'BUILD_CA_BUNDLE', path: '/etc/builds.pem' },
  ])
  t.is(settings({ ...service, BUILD_CA_BUNDLE: 'off' }).authorities, null)
})

test('builds use the proxies of the service for their protocols, and BUILD_PROXY for both instead', t => {
  t.is(settings({}).proxy, null)
  t.deepEqual(settings({}).proxyFact, { state: 'none', remedy: null })
  const service = { HTTPS_PROXY: 'http://10.0.0.1:3128', NO_PROXY: '.corp' }
  t.deepEqual(settings(service).proxy, { https: 'http://10.0.0.1:3128', http: null, none: '.corp' })
  t.deepEqual(settings(service).proxyFact, { state: 'http://10.0.0.1:3128 (HTTPS_PROXY of the host)', remedy: null })
  const small = { http_proxy: 'proxy.corp:80', https_proxy: 'http://proxy.corp:81', no_proxy: 'x' }
  t.deepEqual(settings(small).proxy, { https: 'http://proxy.corp:81', http: 'http://proxy.corp:80', none: 'x' })
  const own = settings({ ...service, BUILD_PROXY: 'http://10.0.0.2:80' })
  t.deepEqual(own.proxy, { https: 'http://10.0.0.2:80', http: 'http://10.0.0.2:80', none: null })
  t.is(own.proxyFact.state, 'http://10.0.0.2:80 (BUILD_PROXY)')
  const off = settings({ ...service, BUILD_PROXY: 'off' })
  t.is(off.proxy, null)
  t.deepEqual(off.proxyFact, { state: 'none: BUILD_PROXY is off', remedy: null })
})

test('a proxy of the service with credentials is not given to builds, and its credentials are not shown', t => {
  const secret = 'http://ana:secret@10.0.0.1:3128'
  for (const url of [secret, 'ana:secret@10.0.0.1:3128', 'http://ana@10.0.0.1', 'socks5://ana:secret@10.0.0.1:1']) {
    const { proxy, proxyFact } = settings({ HTTPS_PROXY: url })
    t.is(proxy, null, url)
    t.is(proxyFact.state, 'none')
    t.is(
      proxyFact.remedy,
      'HTTPS_PROXY has credentials, which builds do not get: set BUILD_PROXY to a proxy for builds, or to off',
    )
  }
  t.is(settings({ HTTPS_PROXY: secret, HTTP_PROXY: 'http://10.0.0.1:80' }).proxy?.http, 'http://10.0.0.1:80')
  t.is(settings({ BUILD_PROXY: secret }).proxy?.https, secret, 'this one was set on purpose')
  t.is(settings({ BUILD_PROXY: secret }).proxyFact.state, 'http://...@10.0.0.1:3128 (BUILD_PROXY)')
  t.is(settings({ BUILD_PROXY: 'ana:secret@10.0.0.1:3128' }).proxyFact.state, 'http://...@10.0.0.1:3128 (BUILD_PROXY)')
})

test('the cache of packages uses the proxy of the service with its credentials and on loopback, unless BUILD_PROXY says otherwise', t => {
  const service = { HTTPS_PROXY: 'ana:se%40cret@127.0.0.1:3128', HTTP_PROXY: 'http://proxy.corp', NO_PROXY: '.corp' }
  t.is(settings(service).proxy?.https, null)
  t.deepEqual(settings(service).cacheProxy, {
    https: 'http://ana:se%40cret@127.0.0.1:3128',
    http: 'http://proxy.corp:80',
    none: '.corp',
  })
  t.is(settings({ HTTPS_PROXY: 'http://localhost:3128' }).cacheProxy?.https, 'http://localhost:3128')
  const own = { http: 'http://10.0.0.2:80', https: 'http://10.0.0.2:80', none: null }
  t.deepEqual(settings({ ...service, BUILD_PROXY: 'http://10.0.0.2:80' }).cacheProxy, own)
  t.is(settings({ ...service, BUILD_PROXY: 'off' }).cacheProxy, null)
  for (const url of ['bob:#x@p:1', 'bob:50%@p:1', 'socks5://p:1']) t.is(settings({ HTTPS_PROXY: url }).cacheProxy, null)
})

test('a password with characters that end an address reaches neither builds nor people', t => {
  const passwords = [
    '12345#x',
    '#secret',
    '80/se',
    '8080?secret',
    '80\\x',
    '80/s@e',
    '12%40',
    '80/',
    '80?',
    '80#',
    '80 x',
  ]
  for (const address of passwords.map(password => `bob:${password}@proxy:3128`))
    for (const url of [address, `http://${address}`, `https://${address}/`]) {
      for (const setting of ['HTTPS_PROXY', 'http_proxy']) {
        const { proxy, proxyFact } = settings({ [setting]: url })
        t.is(proxy, null, url)
        t.is(proxyFact.state, 'none')
        t.regex(proxyFact.remedy!, /^HTTPS?_PROXY has credentials, which builds do not get: /)
        t.notRegex(JSON.stringify(proxyFact), /bob|secret|12345|8080/)
      }
      const own = settings({ BUILD_PROXY: url })
      t.is(own.proxy?.https, url.includes('://') ? url : `http://${url}`, 'this one was set on purpose')
      t.notRegex(JSON.stringify(own.proxyFact), /bob|secret|12345|8080|se@/)
    }
  t.regex(settings({ BUILD_PROXY: 'bob:#secret@proxy:3128' }).proxyFact.remedy!, /^BUILD_PROXY is not only an address/)
  t.is(proxyEndpoint('http://bob:12345#x@proxy:3128'), null, 'the firewall opens no address of bob')
  t.deepEqual(proxyEndpoint('http://bob:x@proxy:3128/'), { protocol: 'http:', hostname: 'proxy', port: 3128 })
})

test('of a proxy of the service only the address and the port reach builds and people', t => {
  for (const url of [
    'http://proxy:3128/path',
    'proxy:3128?query',
    'http://proxy:3128#x',
    'proxy:3128\\x',
    'http:/proxy',
  ]) {
    const { proxy, proxyFact } = settings({ HTTPS_PROXY: url })
    t.is(proxy, null, url)
    t.regex(proxyFact.remedy!, /^HTTPS_PROXY is not only an address with a port/, url)
    t.notRegex(settings({ BUILD_PROXY: url }).proxyFact.state, /path|query|x$/)
  }
  const plain = {
    'http://proxy': 'http://proxy:80',
    'HTTPS://Proxy/': 'https://proxy:443',
    'proxy.:1': 'http://proxy.:1',
  }
  for (const [given, passed] of Object.entries(plain)) t.is(settings({ HTTP_PROXY: given }).proxy?.http, passed)
})

test('a name of a proxy without an address is reported, with what to do', t => {
  const service = settings({ HTTPS_PROXY: 'http://proxy.corp:80' })
  t.deepEqual(proxyFactWithout(service, []), service.proxyFact)
  const { state, remedy } = proxyFactWithout(service, ['proxy.corp'])
  t.regex(state, /^http:\/\/proxy.corp:80 .* proxy.corp has no address that builds may reach, so they do not use it$/)
  t.regex(remedy!, /^give proxy.corp an IPv4 address .* looks again every minute$/)
  t.notRegex(proxyFactWithout(settings({ BUILD_PROXY: 'http://p:1' }), ['p']).state, /do not use/)
})

test('a proxy that no container reaches is not given to builds, and one that BUILD_PROXY names is reported', t => {
  for (const host of ['127.0.0.1', 'localhost', '127.1', '[::1]', 'a.localhost', '0.0.0.0', ...loopbackNames]) {
    const { proxy, proxyFact } = settings({ https_proxy: `http://${host}:3128` })
    t.is(proxy, null, host)
    t.regex(proxyFact.remedy!, /^HTTPS_PROXY is an address of loopback, which no container reaches: set BUILD_PROXY/)
  }
  for (const address of ['[fd00::1]', '[::ffff:10.0.0.1]']) {
    const { proxy, proxyFact } = settings({ HTTPS_PROXY: `http://${address}:3128` })
    t.is(proxy, null, address)
    t.regex(proxyFact.remedy!, /^HTTPS_PROXY is an IPv6 address, which no container reaches/)
  }
  t.regex(settings({ BUILD_PROXY: 'http://127.0.0.1:9' }).proxyFact.remedy!, /^BUILD_PROXY is an address of loopback/)
  t.regex(settings({ HTTPS_PROXY: 'socks5://10.0.0.1:1' }).proxyFact.remedy!, /^HTTPS_PROXY is no http or https/)
  t.is(settings({ HTTPS_PROXY: 'socks5://10.0.0.1:1' }).proxy, null)
})

test('empty variables of the service count as missing', t => {
  const empty = {
    HTTPS_PROXY: '',
    HTTP_PROXY: '',
    NO_PROXY: '',
    SSL_CERT_FILE: '',
    BUILD_PROXY: '',
    BUILD_CA_BUNDLE: '',
  }
  t.deepEqual(parseConfig(empty, '/').host.builds, parseConfig({}, '/').host.builds)
})
