import test from 'ava'
import { keyStoreOf, trustVariables, withoutProxy } from '../../../policy/hosts/build-trust.ts'

const proxy = {
  http: 'http://proxy.test:3128',
  https: 'http://secure.test:3129',
  none: 'corp.test, .own.test,10.0.0.1:80,10.0.0.0/8,*.a.test',
}

test('a JVM gets the proxy and the authorities in its own form, and nothing when there are none', t => {
  t.is(
    trustVariables('java', proxy, true).JAVA_TOOL_OPTIONS,
    [
      '-Djavax.net.ssl.trustStore=/etc/berth-ca.jks -Djavax.net.ssl.trustStoreType=JKS',
      '-Dhttp.proxyHost=proxy.test -Dhttp.proxyPort=3128 -Dhttps.proxyHost=secure.test -Dhttps.proxyPort=3129',
      '-Dhttp.nonProxyHosts=localhost|127.*|[::1]|corp.test|*.corp.test|own.test|*.own.test|10.0.0.1|a.test|*.a.test',
      '-Daether.connector.http.useSystemProperties=true',
    ].join(' '),
  )
  t.deepEqual(trustVariables('java', null, false), {})
  t.false('JAVA_TOOL_OPTIONS' in trustVariables('go', proxy, true))
  t.is(keyStoreOf('/v/build-authorities.pem'), '/v/build-authorities.jks')
})

test('a JVM gets no proxy that it cannot use, and no credentials', t => {
  const secret = 'http://user:secret@proxy.test:3128'
  const { JAVA_TOOL_OPTIONS = '' } = trustVariables('java', { http: secret, https: secret, none: '*' }, false)
  t.notRegex(JAVA_TOOL_OPTIONS, /user|secret/)
  t.regex(JAVA_TOOL_OPTIONS, /-Dhttps\.proxyHost=proxy\.test/)
  t.regex(JAVA_TOOL_OPTIONS, /\|\*( |$)/)
  const overTls = 'https://proxy.test:3128'
  t.false('JAVA_TOOL_OPTIONS' in trustVariables('java', { http: overTls, https: overTls, none: null }, false))
})

test('a build reaches an address without its proxy, also by a JVM', t => {
  t.deepEqual(withoutProxy({}, '10.1.0.1'), { NO_PROXY: '10.1.0.1', no_proxy: '10.1.0.1' })
  const variables = withoutProxy(trustVariables('java', { ...proxy, none: 'corp.test' }, true), '10.1.0.1')
  t.is(variables.NO_PROXY, 'corp.test,10.1.0.1')
  t.true(variables.JAVA_TOOL_OPTIONS?.includes('|*.corp.test|10.1.0.1 -Daether'), variables.JAVA_TOOL_OPTIONS)
  const withoutAny = trustVariables('java', null, true)
  t.is(withoutProxy(withoutAny, '10.1.0.1').JAVA_TOOL_OPTIONS, withoutAny.JAVA_TOOL_OPTIONS)
})
