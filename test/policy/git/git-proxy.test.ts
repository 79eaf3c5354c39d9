import test from 'ava'
import { gitProxySettings } from '../../../policy/git/git-proxy.ts'
import { gitAddress } from '../../../policy/git/git-source.ts'
import { hostProxy, isNearProxy, isWithoutProxy, proxyOf, wholeAddress } from '../../../policy/hosts/proxy-address.ts'

const address = (url: string) => gitAddress(url)!

test('fetches use the proxies of the service for their protocols, in either case, and GIT_PROXY for both instead', t => {
  t.like(gitProxySettings({}), { proxies: { https: null, http: null }, fact: { state: 'none', remedy: null } })
  const small = gitProxySettings({ https_proxy: 'proxy.corp:81', http_proxy: 'http://proxy.corp', no_proxy: 'x' })
  t.like(small.proxies, { https: { hostname: 'proxy.corp', port: 81 }, http: { port: 80 }, none: 'x' })
  const service = { HTTPS_PROXY: 'http://10.0.0.1:3128', https_proxy: 'http://other:1' }
  t.like(gitProxySettings(service).proxies, { https: { hostname: '10.0.0.1' }, http: null })
  t.is(gitProxySettings(service).fact.state, 'http://10.0.0.1:3128 (HTTPS_PROXY of the host)')
  const own = gitProxySettings({ ...service, GIT_PROXY: 'https://127.0.0.1:3129', NO_PROXY: '.corp' })
  const expected = { protocol: 'https:', hostname: '127.0.0.1', port: 3129 } as const
  t.like(own.proxies, { https: expected, http: expected, none: '.corp' })
  t.is(own.fact.state, 'https://127.0.0.1:3129 (GIT_PROXY)')
  const off = gitProxySettings({ ...service, GIT_PROXY: 'off' })
  t.like(off, { proxies: { https: null, http: null }, fact: { state: 'none: GIT_PROXY is off', remedy: null } })
})

test('credentials of a proxy are decoded for fetches, and not shown', t => {
  const { proxies, fact } = gitProxySettings({ HTTPS_PROXY: 'http://ana:se%40cret@10.0.0.1:3128' })
  t.deepEqual(proxies.https?.credentials, { user: 'ana', password: 'se@cret' })
  t.deepEqual(fact, { state: 'http://...@10.0.0.1:3128 (HTTPS_PROXY of the host)', remedy: null })
  t.is(wholeAddress(proxies.https!), 'http://ana:se%40cret@10.0.0.1:3128')
})

test('a proxy that programs read in different ways is not used: the environment is reported, GIT_PROXY refused, without its text', t => {
  const wrong = [
    'bob:#secret@p:1',
    'http://bob:secret/x@p:1',
    'socks5://bob:secret@p:1',
    'bob:secret%@p:1',
    'bob:secret%0ax@p:1',
  ]
  for (const url of [...wrong, 'bob%3Asecret:x@p:1', 'http://p:1/secret']) {
    t.is(hostProxy(url), null, url)
    const { proxies, fact } = gitProxySettings({ HTTPS_PROXY: url, HTTP_PROXY: 'http://p:2' })
    t.is(proxies.https, null)
    t.like(proxies.http, { port: 2 })
    t.is(fact.state, 'http://p:2 (HTTP_PROXY of the host)')
    t.regex(fact.remedy ?? '', /^HTTPS_PROXY is no http or https address.*set GIT_PROXY/)
    t.notRegex(JSON.stringify(fact), /bob|secret/)
    const error = t.throws(() => gitProxySettings({ GIT_PROXY: url }), { message: /^The setting GIT_PROXY is no http/ })
    t.notRegex(error.message, /bob|secret/)
  }
})

test('NO_PROXY names servers by name, by a name above, by address, by port, or all', t => {
  const names = (none: string, url: string) => isWithoutProxy(none, address(url))
  for (const none of [
    'forge.example',
    'example',
    '.example',
    '*.example',
    'x, FORGE.example',
    'x forge.example:8443',
    '*',
  ])
    t.true(names(none, 'https://forge.example:8443/a.git'), none)
  for (const none of ['', ',', 'orge.example', 'forge.example.x', 'forge.example:443', '.', '10.0.0.0/8'])
    t.false(names(none, 'https://forge.example:8443/a.git'), none)
  for (const none of ['1.1.1.1', '1.1.1.1:443', '[2606:4700::1]', '2606:4700::1', '[2606:4700::1]:443'])
    t.is(names(none, 'https://1.1.1.1/a.git'), none.startsWith('1.'), none)
  for (const none of ['[2606:4700::1]', '2606:4700::1', '[2606:4700::1]:443'])
    t.true(names(none, 'https://[2606:4700::1]/a.git'), none)
  const { proxies } = gitProxySettings({ HTTPS_PROXY: 'http://p:1', NO_PROXY: '.corp' })
  t.is(proxyOf(proxies, address('https://git.corp/a.git')), null)
  t.is(proxyOf(proxies, address('http://forge.example/a.git')), null, 'a proxy for https alone')
  t.is(proxyOf(proxies, address('https://forge.example/a.git')), proxies.https)
})

test('a proxy is asked neither for names of private networks nor for itself', t => {
  const proxy = hostProxy('http://proxy.corp.example:3128')!
  for (const host of [
    'localhost',
    'git',
    'a.localhost',
    'git.local',
    'git.corp.internal',
    'git.home.arpa',
    'localhost.localdomain',
    'localhost6.localdomain6',
    ...['lan', 'intranet', 'corp', 'home', 'private'].map(zone => `git.${zone}`),
    'proxy.corp.example:3128',
  ])
    t.true(isNearProxy(address(`http://${host}/a.git`), proxy), host)
  for (const host of [
    'forge.example',
    'internal.example',
    'lan.example',
    'git.xlan.example',
    'proxy.corp.example',
    '[2606:4700::1]',
    '1.1.1.1',
  ])
    t.false(isNearProxy(address(`http://${host}/a.git`), proxy), host)
  t.true(isNearProxy(address('http://[2606:4700::1]:3128/a.git'), hostProxy('http://[2606:4700::1]:3128')!))
})
