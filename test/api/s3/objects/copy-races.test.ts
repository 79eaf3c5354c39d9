import test from 'ava'
import { changeObject } from '../../../../db/objects/object-changes.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

test('a copy of an object onto itself retains changes made while it waited for the lock', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/a', { body: 'x', headers: { 'cache-control': 'max-age=1' } })
  const changing = await api().db.transaction()
  await changeObject(changing, { ownerId: ana.id, bucket: 'private', key: 'a' }, { cacheControl: 'max-age=2' })
  const copying = wire.send('PUT', '/private/a', {
    headers: {
      'x-amz-copy-source': '/private/a',
      'x-amz-tagging-directive': 'REPLACE',
      'x-amz-tagging': 'n=1',
    },
  })
  const waiting = api()
    .db('pg_stat_activity')
    .where({ wait_event: 'advisory' })
    .whereRaw('datname = current_database()')
  await comesTrue(async () => (await waiting.clone()).length > 0)
  await changing.commit()
  t.is((await copying).status, 200)
  t.is((await wire.send('HEAD', '/private/a')).headers['cache-control'], 'max-age=2')
})
