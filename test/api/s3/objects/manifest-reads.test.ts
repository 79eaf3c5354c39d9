import test from 'ava'
import { openDatabase } from '../../../../db/database.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

test('answers without bytes of an object do not read its manifest', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const etag = (await wire.send('PUT', '/public/a.txt', { body: 'hello' })).headers.etag!
  const other = openDatabase({ url: api().db.client.config.connection.connectionString, pool: 1 })
  const trx = await other.transaction()
  t.teardown(() => other.destroy())
  await trx.raw('lock table object_parts in access exclusive mode')
  const known = { 'if-none-match': etag }
  const changed = { 'if-match': '"x"' }
  const path = '/public/a.txt'
  t.is((await wire.send('HEAD', path)).headers['content-length'], '5')
  t.is((await wire.send('GET', path, { headers: known })).status, 304)
  t.is((await wire.send('GET', path, { headers: changed })).code, 'PreconditionFailed')
  const url = `${api().publicUrl}/pub/${ana.id}/a.txt`
  t.is((await fetch(url, { method: 'HEAD' })).headers.get('content-length'), '5')
  t.is((await fetch(url, { headers: known })).status, 304)
  await trx.rollback()
  const whole = await wire.send('GET', path, { headers: { 'if-match': etag, range: 'bytes=1-2' } })
  t.deepEqual([whole.status, whole.text], [206, 'el'])
  t.is((await wire.send('HEAD', `${path}?partNumber=1`)).status, 206)
})
