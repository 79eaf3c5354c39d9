import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

test('a token has 60 requests in a minute, of any kind; beyond that it is blocked for five minutes, others are not', async t => {
  const { blobAs, makeUser, db } = api()
  const ana = await makeUser({ plan: 'enterprise-128' })
  const mint = async () => (await blobAs(ana).post('/v1/upload-tokens')).body.response.token
  const [busy, calm] = [await mint(), await mint()]
  const ask = (token: string) => blobAs(token).get('/v1/objects/chunked/open')
  for (let n = 1; n <= 60; n++) t.is((await ask(busy)).body.code, 'UPLOAD_TOKEN_NOT_ALLOWED', `${n}`)
  const refused = await ask(busy)
  t.like(refused, { status: 429, body: { code: 'RATE_LIMITED' } })
  t.is(refused.headers.get('retry-after'), '300')
  t.is((await ask(calm)).status, 403)
  await db('rate_limits').where('key', 'like', 'upload-token/%').update({ window_ends_at: '2000-01-01' })
  t.is((await ask(busy)).status, 429, 'a new minute does not end the pause')
  await db('rate_limits').where('key', 'like', 'upload-token/%').update({ blocked_until: '2000-01-01' })
  t.is((await ask(busy)).status, 403)
})
