import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'

const edge = (env: Record<string, string>) => parseConfig({ BERTH_DATA: '/data', ...env }, '/etc/berth').edge

test('TLS is off unless a setting turns it on, and then has a port of its own', t => {
  t.is(edge({}).tls, null)
  t.deepEqual(edge({ EDGE_TLS: 'local' }).tls, { authority: 'local', port: 8443, publicPort: 8443, files: null })
  t.like(edge({ EDGE_TLS: 'acme', EDGE_TLS_PORT: '443' }).tls, { authority: 'acme', port: 443, publicPort: 443 })
  t.throws(() => edge({ EDGE_TLS: 'on' }), { message: /EDGE_TLS is "on"; it must be one of: off, local, acme/ })
})

test('redirects lead to the port of an https address of the proxy', t => {
  const publicPort = (url: string) => edge({ EDGE_TLS: 'acme', EDGE_URL: url }).tls?.publicPort
  t.is(publicPort('https://example.com'), 443)
  t.is(publicPort('https://example.com:9443'), 9443)
  t.is(publicPort('http://example.com'), 8443)
})

test('files of the operator are given together, and found from where the command is run', t => {
  const files = { EDGE_TLS: 'acme', EDGE_CERTIFICATE: 'chain.pem', EDGE_CERTIFICATE_KEY: '/keys/key.pem' }
  t.deepEqual(edge(files).tls?.files, { certificate: '/etc/berth/chain.pem', key: '/keys/key.pem' })
  for (const name of ['EDGE_CERTIFICATE', 'EDGE_CERTIFICATE_KEY'] as const)
    t.throws(() => edge({ ...files, [name]: '' }), { message: /must be set together/ })
})

test('the PROXY protocol needs somebody who is trusted', t => {
  t.false(edge({}).proxyProtocol)
  t.throws(() => edge({ EDGE_PROXY_PROTOCOL: 'on' }), { message: /EDGE_TRUSTED_PROXIES/ })
  t.true(edge({ EDGE_PROXY_PROTOCOL: 'on', EDGE_TRUSTED_PROXIES: '10.0.0.1' }).proxyProtocol)
})
