import test from 'ava'
import { clientWire } from '../../../cli/doctor/wires.ts'
import { parseConfig } from '../../../policy/config.ts'
import { plainHttpSettings, refusePlainHttp } from '../../../policy/installation/plain-http.ts'

const found = (env: Record<string, string>) => plainHttpSettings(parseConfig(env, '/'))
const open = { EDGE_BIND: '0.0.0.0', BERTH_DOMAIN: 'example.com' }
const https = { ...open, BASE_URL: 'https://api.example.com' }

const cases: [string, Record<string, string>, string[]][] = [
  ['nothing is set', {}, []],
  [
    'names of this machine',
    { BASE_URL: 'http://api.localhost:8080', S3_URL: 'http://[::1]:9', BLOB_URL: 'http://127.9.9.9' },
    [],
  ],
  ['a name', { BASE_URL: 'http://api.example.com' }, ['BASE_URL=http://api.example.com']],
  ['an address of a private network', { BLOB_URL: 'http://10.0.0.5:4001' }, ['BLOB_URL=http://10.0.0.5:4001']],
  [
    'one surface of several',
    { BASE_URL: 'https://a.example.com', FILES_URL: 'http://f.example.com' },
    ['FILES_URL=http://f.example.com'],
  ],
  [
    'a name that only begins as ours',
    { EDGE_URL: 'http://127.0.0.1.example.com' },
    ['EDGE_URL=http://127.0.0.1.example.com'],
  ],
  ['https behind what ends TLS', { ...https, EDGE_TRUSTED_PROXIES: '10.0.0.9' }, []],
  ['https behind what ends TLS on this machine', { ...https, EDGE_BIND: '127.0.0.1' }, []],
  ['https that the proxy ends', { ...https, EDGE_TLS: 'acme' }, []],
  ['https, and nobody who could end TLS', https, ['EDGE_BIND=0.0.0.0, and no EDGE_TRUSTED_PROXIES or EDGE_TLS']],
  ['a proxy that is open under a name, without any address', open, ['EDGE_BIND=0.0.0.0']],
  ['a proxy that is open under the name of this machine', { EDGE_BIND: '::' }, ['EDGE_BIND=::']],
  ['the same on loopback', { BERTH_DOMAIN: 'example.com' }, []],
  ['an API that is open itself', { BIND_ADDRESS: '0.0.0.0' }, ['BIND_ADDRESS=0.0.0.0']],
  [
    'an API that is open itself alongside an https address',
    { ...https, EDGE_TRUSTED_PROXIES: '10.0.0.9', BIND_ADDRESS: '10.0.0.1' },
    ['BIND_ADDRESS=10.0.0.1'],
  ],
]
for (const [name, env, settings] of cases)
  test(`plain http to other machines: ${name}`, t => t.deepEqual(found(env), settings))

test('plain http is refused with what to do, unless the setting allows it; berth doctor reports it in both cases', t => {
  const env = { BASE_URL: 'http://api.example.com' }
  t.throws(() => refusePlainHttp(parseConfig(env, '/')), {
    message: /BASE_URL=http.*API keys.*TLS.*ALLOW_PLAIN_HTTP=on/,
  })
  const allowed = parseConfig({ ...env, ALLOW_PLAIN_HTTP: 'on' }, '/')
  t.notThrows(() => refusePlainHttp(allowed))
  t.regex(clientWire(allowed).state, /^PLAIN HTTP \(BASE_URL=/)
  t.throws(() => parseConfig({ ALLOW_PLAIN_HTTP: 'yes' }, '/'), { message: /ALLOW_PLAIN_HTTP/ })
  t.deepEqual(clientWire(parseConfig({}, '/')), { name: 'client connections', state: 'https, or this machine only' })
})
