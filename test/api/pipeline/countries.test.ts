import test, { type ExecutionContext } from 'ava'
import { openCountries } from '../../../api/pipeline/countries.ts'
import { countryCodes } from '../../../policy/accounts/countries.ts'
import { testApi } from '../../kit/actors/api.ts'
import { chat } from '../../kit/actors/chat-api.ts'
import { madeObject } from '../../kit/objects/stored-objects.ts'

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

/** Until the test ends, every address is registered where nobody may come from. */
function blockAll(t: ExecutionContext) {
  const { services } = api()
  const before = services.isBlocked
  services.isBlocked = () => true
  t.teardown(() => {
    services.isBlocked = before
  })
}

test.serial('a blocked country is refused before authentication, except on endpoints for providers', async t => {
  const ana = await api().makeUser()
  blockAll(t)
  for (const who of [ana, undefined]) {
    const { status, body } = await api().as(who).get('/v2/users/me')
    t.deepEqual([status, body.code], [403, 'COUNTRY_BLOCKED'])
  }
  const asked = await chat(api(), ana)
  t.deepEqual([asked.status, asked.body.error.code], [403, 'country_blocked'])
  t.is(
    (
      await api()
        .as(undefined)
        .post(`/v2/git/webhook/${'a'.repeat(64)}`)
    ).status,
    404,
  )
})

test.serial('a blocked country gets no file either, by any kind of link', async t => {
  const ana = await api().makeUser()
  const { publicUrl, filesUrl, blobAs } = api()
  const [shown, hidden] = [await madeObject(api(), ana, { bucket: 'public' }), await madeObject(api(), ana)]
  const share = (await blobAs(ana).post('/v1/shares', JSON.stringify({ object: hidden.id }))).body.response
  const asked = `/v1/objects/download?object=${encodeURIComponent(hidden.id)}&redirect=false`
  const link = (await blobAs(ana).get(asked)).body.response
  const paths = [`${publicUrl}/${shown.id}`, `${filesUrl}/s/${share.id}`, `${filesUrl}${new URL(link.url).pathname}`]
  const read = async (path: string) => {
    const answer = await fetch(path)
    return [answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control'), await answer.text()]
  }
  for (const path of paths) t.is((await read(path))[0], 200, path)
  blockAll(t)
  const refused = [403, 'text/plain; charset=utf-8', 'no-store', 'This service is not available in your country.\n']
  for (const path of [...paths, `${publicUrl}/none`, `${filesUrl}/none`]) t.deepEqual(await read(path), refused, path)
})
