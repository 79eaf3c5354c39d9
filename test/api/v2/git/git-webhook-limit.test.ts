import test from 'ava'
import { transaction } from '../../../../db/database.ts'
import { queueDeploy } from '../../../../db/deploys/deploys.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { deliver, newCommit, webhookOf } from '../../../kit/git/deliveries.ts'

const api = testApi({ scale: 1 })

test.serial(
  'a webhook accepts a burst of 20, then one delivery per 15 s; repeated deliveries of a stored push are free',
  async t => {
    const ana = await api().makeUser()
    const app = await api().makeApp(ana)
    const hook = await webhookOf(api(), ana, app.id)
    const stored = { deliveryId: 'stored', commit: newCommit() }
    t.is((await deliver(api(), hook, stored)).status, 200)
    const twice = await Promise.all(Array.from({ length: 30 }, () => deliver(api(), hook, stored)))
    t.true(twice.every(answer => answer.status === 200))

    const more = await Promise.all([
      ...Array.from({ length: 12 }, () => deliver(api(), hook)),
      ...Array.from({ length: 12 }, () => deliver(api(), hook, { ref: 'refs/tags/v1' })),
    ])
    const refused = more.filter(answer => answer.status === 429)
    t.is(more.filter(answer => answer.status < 300).length, 19)
    t.is(refused.length, 5)
    for (const answer of refused) {
      t.deepEqual(answer.body, { status: 'error', code: 'KEEP_CALM' })
      t.true(Number(answer.headers.get('retry-after')) >= 1)
    }
    t.is((await deliver(api(), hook, stored)).status, 200, 'also now')
    const rows = await api().db('deployments').where({ app_id: app.id, source: 'git' })
    t.is(rows.length, 1 + more.slice(0, 12).filter(answer => answer.status === 200).length)

    const key = await api()
      .db('rate_limits')
      .whereLike('key', 'git.webhook/%')
      .orderBy('window_ends_at', 'desc')
      .first()
    await api()
      .db('rate_limits')
      .where({ key: key.key })
      .update({ window_ends_at: api().db.raw(`window_ends_at - interval '16 seconds'`) })
    t.is((await deliver(api(), hook)).status, 200, 'one more after 15 s')
    t.is((await deliver(api(), hook)).status, 429)

    const second = await webhookOf(api(), ana, (await api().makeApp(ana)).id)
    t.is((await deliver(api(), second)).status, 200, 'another webhook has its own measure')
  },
)

test.serial('a push while 20 deploys wait is 429, and stored when its provider delivers it again', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const hook = await webhookOf(api(), ana, app.id)
  api().lanes.asleep = true
  t.teardown(() => {
    api().lanes.asleep = false
  })
  const waiting = {
    appId: app.id,
    ownerId: ana.id,
    actor: ana.id,
    trigger: 'upload',
    revision: 'a'.repeat(40),
  } as const
  for (let n = 1; n <= 20; n++) await transaction(api().db, trx => queueDeploy(trx, waiting))
  const push = { deliveryId: 'again', commit: newCommit() }
  const refused = await deliver(api(), hook, push)
  t.like(refused, { status: 429, body: { status: 'error', code: 'KEEP_CALM' } })
  t.true(Number(refused.headers.get('retry-after')) >= 1)
  const deliveries = async () => (await api().as(ana).get(`/v2/apps/${app.id}/webhook-deliveries`)).body.response
  t.like(await deliveries(), [{ verdict: 'refused', reply: { status: 429 }, deployment_id: null }])
  await Promise.all(Array.from({ length: 30 }, () => deliver(api(), hook)))
  t.is((await deliveries()).length, 20, 'and counted: past the burst nothing is listed')
  const hourAgo = api().db.raw(`window_ends_at - interval '1 hour'`)
  await api().db('rate_limits').whereLike('key', 'git.webhook/%').update({ window_ends_at: hourAgo })
  const ended = { state: 'cancelled', code: 'DEPLOY_CANCELLED', finished_at: new Date() }
  await api().db('operations').where({ target_id: app.id, state: 'queued' }).update(ended)
  t.is((await deliver(api(), hook, push)).status, 200)
})

test.serial('deliveries count against no budget of an account or address', async t => {
  const ana = await api().makeUser()
  const hook = await webhookOf(api(), ana, (await api().makeApp(ana)).id)
  const before = await api()
    .db('rate_limits')
    .whereLike('key', 'budget/%')
    .orWhereLike('key', 'outside/%')
    .sum('used as n')
  await deliver(api(), hook)
  const after = await api()
    .db('rate_limits')
    .whereLike('key', 'budget/%')
    .orWhereLike('key', 'outside/%')
    .sum('used as n')
  t.deepEqual(after, before)
})
