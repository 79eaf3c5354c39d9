import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

test('after four attempts within five minutes: a day of KEEP_CALM, and the code stays valid', async t => {
  const ana = await api().makeUser()
  const downgrade = (body?: object) =>
    api()
      .as(ana.session)
      .post('/v2/account/downgrade', body && JSON.stringify(body))
  t.is((await downgrade()).status, 200)
  for (let n = 0; n < 3; n++) t.is((await downgrade({ confirmCode: 'AAAAAAAA' })).status, 400)
  for (let n = 0; n < 2; n++) {
    const refused = await downgrade({ confirmCode: 'AAAAAAAA' })
    t.deepEqual([refused.status, refused.body.code], [429, 'KEEP_CALM'])
    const wait = Number(refused.headers.get('retry-after'))
    t.true(wait > 86_300 && wait <= 86_400, String(wait))
  }
  t.like(await api().db('downgrades').where({ user_id: ana.id }).first(), { state: 'pending', attempts: 3 })
  const bob = await api().makeUser()
  t.is((await api().as(bob.session).post('/v2/account/downgrade')).status, 200, 'nobody else waits')
})
