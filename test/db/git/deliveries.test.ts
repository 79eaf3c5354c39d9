import test from 'ava'
import { type DeliverySource, recordDelivery } from '../../../db/git/deliveries.ts'
import { verdictReply } from '../../../policy/git/webhooks/replies.ts'
import { newId } from '../../../policy/ids.ts'
import { retentionTimes } from '../../../policy/retention.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('of deliveries that deployed nothing an application retains its newest, whatever others of the git provider’s app receive', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const source = async (): Promise<DeliverySource> => {
    const { id: ownerId } = await make.user()
    return { webhookId: null, appId: (await make.app(ownerId)).app.id, ownerId, limitScale: 1 }
  }
  const [ana, bob] = [await source(), await source()]
  const reply = verdictReply('ignored', 202, 'no branch was pushed')
  const record = (of: DeliverySource) => {
    const verdict = { kind: 'ignored', status: 202, reason: '' } as const
    const delivery = {
      provider: 'github',
      event: 'push',
      deliveryId: newId(),
      branch: null,
      commit: null,
      verdict,
    } as const
    return recordDelivery(db, of, delivery, reply, true)
  }
  const retained = async ({ appId }: DeliverySource) => (await db('webhook_deliveries').where({ app_id: appId })).length
  await record(ana)
  const most = retentionTimes.refusedDeliveries
  for (let n = 0; n < most + 5; n++) await record(bob)
  t.is(await retained(bob), most)
  t.is(await retained(ana), 1)
})
