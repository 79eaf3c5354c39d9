import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { buildSettings } from '../../../policy/hosts/build-settings.ts'

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
  for (const url of [secret, 'ana:secret@10.0.0.1:3128', 'http://ana@10.0.0.1']) {
    const { proxy, proxyFact } = settings({ HTTPS_PROXY: url })
    t.is(proxy, null, url)
    t.is(proxyFact.state, 'none')
    t.is(
      proxyFact.remedy,
      'HTTPS_PROXY has credentials, which builds do not get: set BUILD_PROXY to a proxy for builds, or to off',
    )
  }
  t.is(settings({ HTTPS_PROXY: secret, HTTP_PROXY: 'http://10.0.0.1:80' }).proxy?.http, 'http://10.0.0.1:80')
  t.is(settings({ BUILD_PROXY: secret }).proxy?.https, secret, 'whoever sets this one means it')
  t.is(settings({ BUILD_PROXY: secret }).proxyFact.state, 'http://...@10.0.0.1:3128 (BUILD_PROXY)')
  t.is(settings({ BUILD_PROXY: 'ana:secret@10.0.0.1:3128' }).proxyFact.state, 'http://...@10.0.0.1:3128 (BUILD_PROXY)')
})

test('a proxy that no container reaches is not given to builds, and one that BUILD_PROXY names is reported', t => {
  for (const host of ['127.0.0.1', 'localhost', '127.1', '[::1]', 'a.localhost', '0.0.0.0']) {
    const { proxy, proxyFact } = settings({ https_proxy: `http://${host}:3128` })
    t.is(proxy, null, host)
    t.regex(proxyFact.remedy!, /^HTTPS_PROXY is an address of loopback, which no container reaches: set BUILD_PROXY/)
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
