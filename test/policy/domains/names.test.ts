import test from 'ava'
import fc from 'fast-check'
import { parseConfig } from '../../../policy/config.ts'
import { customHostname, isHostnameWithin, platformDomains, storedName } from '../../../policy/domains/names.ts'
import { CodedError } from '../../../policy/errors.ts'

const own = ['berth.example', 'apps.berth-apps.com']

/** The name in DNS, or the code of the refusal. */
function answer(typed: string): string {
  try {
    return customHostname(typed, own)
  } catch (error) {
    if (error instanceof CodedError) return error.code
    throw error
  }
}

test('names are stored as DNS has them', t => {
  const rows: [typed: string, hostname: string][] = [
    ['www.example.com', 'www.example.com'],
    [' WWW.Example.COM. \n', 'www.example.com'],
    ['münchen.de', 'xn--mnchen-3ya.de'],
    ['MÜNCHEN.de', 'xn--mnchen-3ya.de'],
    ['xn--mnchen-3ya.de', 'xn--mnchen-3ya.de'],
    ['例え。テスト', 'xn--r8jz45g.xn--zckzah'],
    ['shop.test', 'shop.test'],
    ['a.co.uk', 'a.co.uk'],
    ['me.github.io', 'me.github.io'],
    ['1.2.example.com', '1.2.example.com'],
    ['example.com', 'example.com'],
    [`${'a'.repeat(63)}.com`, `${'a'.repeat(63)}.com`],
  ]
  for (const [typed, hostname] of rows) t.is(answer(typed), hostname, typed)
})

test('a typed name is found in the form in which it is stored', t => {
  t.is(storedName(' Shop.BÜCHER.dev. '), 'shop.xn--bcher-kva.dev')
  t.is(storedName('*.Apps.localhost'), '*.apps.localhost')
  t.is(storedName('*.*.dev'), null)
  t.is(storedName('a b'), null)
})

test('anything but a host name is refused', t => {
  const texts = [
    ...[
      '',
      ' ',
      '.',
      '..',
      'a..com',
      '.a.com',
      'a.com..',
      'com',
      'shop',
      '-a.com',
      'a-.com',
      'a_b.com',
      '*.a.com',
      '@',
    ],
    ...[
      'https://a.com',
      'a.com/',
      'a.com:80',
      'u@a.com',
      'a.com?x',
      'a.com#x',
      'a b.com',
      'a.com\u0000',
      'ex%61mple.com',
    ],
    ...['1.2.3.4', '127.1', '0x7f.1', '[::1]', '::1', '2130706433', 'foo.123', 'xn--a.com', '１.２.３.４'],
    ...[`${'a'.repeat(64)}.com`, `${'a.'.repeat(126)}com`, 'a'.repeat(5000)],
  ]
  for (const text of texts) t.is(answer(text), 'INVALID_DOMAIN', JSON.stringify(text))
})

test('the longest name still has room for each record below it', t => {
  const ofLength = (length: number) =>
    `${'a'.repeat(60)}.${'a'.repeat(60)}.${'a'.repeat(60)}.${'b'.repeat(length - 187)}.com`
  t.is(answer(ofLength(237)), ofLength(237))
  t.is(`_acme-challenge.${ofLength(237)}`.length, 253)
  t.is(answer(ofLength(238)), 'INVALID_DOMAIN')
})

test('names that nobody can prove, suffixes that everyone shares, and those of the platform are reserved', t => {
  const texts = [
    ...['localhost', 'a.localhost', 'printer.local', 'a.internal', '1.0.0.127.in-addr.arpa', 'x.home.arpa', 'a.onion'],
    ...['a.invalid', 'co.uk', 'github.io', 'GITHUB.IO.', 'foo.ck', 'b.kawasaki.jp'],
    ...[
      'berth.example',
      'api.berth.example',
      'apps.berth-apps.com',
      'mine.apps.berth-apps.com',
      'Mine.Apps.Berth-Apps.com.',
    ],
  ]
  for (const text of texts) t.is(answer(text), 'RESERVED_DOMAIN', text)
  for (const text of ['notlocalhost.com', 'myberth.example', 'berth-apps.com', 'www.berth-apps.com', 'www.ck'])
    t.is(answer(text), text, text)
})

test('a refusal of a reserved name says which domain is meant', t => {
  t.throws(() => customHostname('x.mine.local', own), { message: /below local / })
  t.throws(() => customHostname('co.uk', own), { message: /below co\.uk/ })
})

test('each surface, zone and suffix of the platform is one of its own domains', t => {
  const config = parseConfig(
    {
      BERTH_DOMAIN: 'Berth.example',
      BASE_URL: 'https://api.other.example',
      DATABASE_DOMAIN: 'db.example',
      ACME_DNS_DOMAIN: 'acme.example',
    },
    '/',
  )
  t.deepEqual(platformDomains(config).sort(), [
    'acme.example',
    'api.other.example',
    'apps.berth.example',
    'berth.example',
    'db.example',
  ])
})

test('a stored name is always in normal form and never a name of the platform', t => {
  const labels = fc.oneof(
    fc.domain(),
    fc.string({ maxLength: 40 }),
    fc.constantFrom('a.', 'berth.example', '.', 'ß', '-'),
  )
  fc.assert(
    fc.property(fc.array(labels, { minLength: 1, maxLength: 4 }), parts => {
      const hostname = answer(parts.join('.'))
      if (/^[A-Z]/.test(hostname)) return
      t.regex(hostname, /^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+$/)
      t.is(answer(hostname), hostname)
      t.false(own.some(domain => isHostnameWithin(hostname, domain)))
    }),
    { numRuns: 500 },
  )
})
