import type { IncomingMessage } from 'node:http'
import test from 'ava'
import { addressOf, loopback, networkOf } from '../../../api/http/address.ts'
import { KeyGuesses } from '../../../api/pipeline/key-guesses.ts'
import { AddressSet } from '../../../lib/addresses.ts'

const request = (remoteAddress: string, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

test('a forged X-Forwarded-For has no effect', t => {
  t.is(addressOf(request('192.0.2.1', '10.0.0.1'), new AddressSet([])), '192.0.2.1')
  t.is(addressOf(request('192.0.2.1', '10.0.0.1'), new AddressSet(['192.0.2.9'])), '192.0.2.1')
})

test('behind trusted proxies the nearest untrusted hop is the caller', t => {
  const proxies = new AddressSet(['127.0.0.1', '192.0.2.0/24'])
  t.is(addressOf(request('127.0.0.1', '203.0.113.5'), proxies), '203.0.113.5')
  t.is(addressOf(request('::ffff:127.0.0.1', '6.6.6.6, 203.0.113.5, 192.0.2.9'), proxies), '203.0.113.5')
  t.is(addressOf(request('127.0.0.1', 'nonsense'), proxies), '127.0.0.1')
  t.is(addressOf(request('127.0.0.1', ''), proxies), '127.0.0.1')
})

test('inside are loopback, hosts and the networks of applications', t => {
  const inside = new AddressSet([...loopback, '198.51.100.7', 'not an address', '2001:db8::7', '10.192.0.0/11'])
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '198.51.100.7', '2001:db8::7', '10.200.1.2'])
    t.true(inside.has(address), address)
  for (const address of ['198.51.100.8', '10.0.0.1', '2001:db8::8', '8.8.8.8', ''])
    t.false(inside.has(address), address)
})

test('20 invalid keys in a minute: these are refused without a lookup for 5 minutes, others are not', t => {
  const guesses = new KeyGuesses()
  for (let i = 0; i < 19; i++) guesses.miss('192.0.2.1', 'dead', i)
  t.false(guesses.refuses('192.0.2.1', 'dead', 20))
  guesses.miss('192.0.2.1', 'dead', 20)
  t.true(guesses.refuses('192.0.2.1', 'dead', 21))
  t.false(guesses.refuses('192.0.2.1', 'valid', 21))
  t.false(guesses.refuses('192.0.2.2', 'dead', 21))
  t.false(guesses.refuses('192.0.2.1', 'dead', 20 + 5 * 60_000))
})

test('slow guessing is not blocked; a /64 is one caller', t => {
  const guesses = new KeyGuesses()
  for (let i = 0; i < 40; i++) guesses.miss('192.0.2.1', 'dead', i * 4000)
  t.false(guesses.refuses('192.0.2.1', 'dead', 160_001))
  for (let i = 0; i < 20; i++) guesses.miss(`2001:db8:0:1::${i}`, 'dead', i)
  t.true(guesses.refuses('2001:db8:0:1:ffff::1', 'dead', 21))
  t.false(guesses.refuses('2001:db8:0:2::1', 'dead', 21))
})

test('refusals to a guesser are delayed by a second at most, and no other caller waits', t => {
  const guesses = new KeyGuesses()
  for (let i = 0; i < 20; i++) {
    t.is(guesses.waitOf('192.0.2.1', 0), 0)
    guesses.miss('192.0.2.1', undefined, 0)
  }
  const waits = Array.from({ length: 300 }, () => guesses.waitOf('192.0.2.1', 0))
  t.deepEqual(waits.slice(0, 4), [0, 5, 10, 15])
  t.is(Math.max(...waits), 1000)
  t.is(guesses.waitOf('192.0.2.2', 0), 0)
  t.is(guesses.waitOf('192.0.2.1', 5000), 0)
  t.is(guesses.waitOf('192.0.2.1', 5 * 60_000), 0)
})

test('each of several processes counts up to its share', t => {
  const pair = [new KeyGuesses(2), new KeyGuesses(2)]
  for (let i = 0; i < 18; i++) pair[i % 2]!.miss('192.0.2.1', 'dead', i)
  for (const guesses of pair) t.false(guesses.refuses('192.0.2.1', 'dead', 18))
  for (const guesses of pair) guesses.miss('192.0.2.1', 'dead', 19)
  for (const guesses of pair) t.true(guesses.refuses('192.0.2.1', 'dead', 20))
})

test('an IPv6 caller is one /64, however the address is written', t => {
  const cases: [string, string][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:0DB8:0001:0002::9', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['2001:db8::ffff:1', '2001:db8:0:0'],
    ['2001:db8:0:0:5::', '2001:db8:0:0'],
    ['2001:db8:5::1', '2001:db8:5:0'],
    ['::1', '0:0:0:0'],
    ['::1:2:3:4:5', '0:0:0:1'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
  ]
  for (const [address, network] of cases) t.is(networkOf(address), network, address)
})
