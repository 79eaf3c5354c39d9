import test from 'ava'
import { TtlCache } from '../../../../lib/async/ttl-cache.ts'
import { testApi } from '../../../kit/actors/api.ts'

const remembering = testApi({ scale: 1 })
const forgetful = testApi({ scale: 1, services: () => ({ accountSnapshots: new TtlCache(0) }) })

test('the fourth uncached list of a minute is refused for five minutes', async t => {
  const ana = await forgetful().makeUser()
  const ask = (scope = 'applications') => forgetful().as(ana).get(`/v2/users/snapshots?scope=${scope}`)
  for (let n = 0; n < 3; n++) t.is((await ask()).status, 200)
  const refused = await ask()
  t.deepEqual([refused.status, refused.body.code], [429, 'KEEP_CALM'])
  const wait = Number(refused.headers.get('retry-after'))
  t.true(wait > 290 && wait <= 300, String(wait))
  t.is((await ask('databases')).status, 429, 'lists of databases are counted with them')
})

test('a cached answer costs nothing', async t => {
  const ana = await remembering().makeUser()
  const answers = await Promise.all(Array.from({ length: 8 }, () => remembering().as(ana).get('/v2/users/snapshots')))
  t.deepEqual([...new Set(answers.map(answer => answer.status))], [200])
})
