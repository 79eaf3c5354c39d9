import test from 'ava'
import { openCountries } from '../../api/countries.ts'
import { countryCodes } from '../../policy/countries.ts'
import { testApi } from '../kit/api.ts'

const api = testApi()

test('the database knows where addresses are registered', async t => {
  const inBrazil = await openCountries(['BR'])
  t.true(inBrazil('200.160.2.3'))
  t.true(inBrazil('2001:12ff::1'))
  t.false(inBrazil('8.8.8.8'))
  for (const address of ['127.0.0.1', '10.0.0.1', '::1', 'fe80::1', '', 'nonsense']) t.false(inBrazil(address), address)
  t.false((await openCountries([]))('200.160.2.3'))
})

test('codes are two letters', t => {
  t.deepEqual(countryCodes('BLOCKED_COUNTRIES', ['br', 'US']), ['BR', 'US'])
  t.throws(() => countryCodes('BLOCKED_COUNTRIES', ['Brazil']), { message: /BLOCKED_COUNTRIES.*"BRAZIL"/ })
})

test.serial('a blocked country is refused before authentication; what a provider calls is not', async t => {
  const ana = await api().makeUser()
  const { parts } = api()
  const before = parts.isBlocked
  parts.isBlocked = () => true
  t.teardown(() => {
    parts.isBlocked = before
  })
  for (const who of [ana, undefined]) {
    const { status, body } = await api().as(who).get('/v2/users/me')
    t.deepEqual([status, body.code], [403, 'COUNTRY_BLOCKED'])
  }
  t.is(
    (
      await api()
        .as(undefined)
        .post(`/v2/git/webhook/${'a'.repeat(64)}`)
    ).status,
    404,
  )
})
