import test from 'ava'
import { openDatabase } from '../../../../db/database.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { deliver, named, newCommit, webhookOf } from '../../../kit/git/deliveries.ts'

const api = testApi()

test('a delivery that already is a deployment is answered so, even when it cannot be stored in time', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const hook = await webhookOf(api(), ana, app.id)
  const sent = { deliveryId: 'comes-again', commit: newCommit() }
  const deployment = named(await deliver(api(), hook, sent))
  const other = openDatabase({ url: api().db.client.config.connection.connectionString, pool: 1 })
  t.teardown(() => other.destroy())
  const held = await other.transaction()
  await held('apps').where({ id: app.id }).forUpdate().first('id')
  // One at a time of an application: all of them but one never come to the row.
  const again = await Promise.all(Array.from({ length: 3 }, () => deliver(api(), hook, sent)))
  const fresh = await deliver(api(), hook, { deliveryId: 'new', commit: newCommit() })
  await held.rollback()
  for (const answer of again) t.deepEqual([answer.status, named(answer)], [200, deployment], answer.text)
  t.is(fresh.status, 503)
  const count = async () =>
    Number((await api().db('deployments').where({ app_id: app.id, source: 'git' }).count())[0]!.count)
  t.is(await count(), 1)
})
