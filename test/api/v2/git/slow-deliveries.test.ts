import { once } from 'node:events'
import { request } from 'node:http'
import test from 'ava'
import { lockForDeploy } from '../../../../db/deploys/deploys.ts'
import { bodyBudgets, maxDeliveryBytes, unsignedDeliveries } from '../../../../policy/body-budgets.ts'
import { openBody } from '../../../kit/actors/open-body.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { type Connected, link, testProviderApi } from '../../../kit/git/connected.ts'
import { cloneUrl, deliver, newCommit, webhookOf } from '../../../kit/git/deliveries.ts'
import { appEvent, appPush } from '../../../kit/git/git-app-events.ts'
import { pushEvent } from '../../../kit/git/git-events.ts'

const megabyte = 1024 * 1024
const { api, provider, connected } = await testProviderApi({ config: { trustedProxies: ['127.0.0.1'] } })

let addresses = 0
const newAddress = () => ({ 'x-forwarded-for': `192.0.2.${++addresses}` })
const anySignature = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}`, 'x-github-event': 'push' }

async function linked(): Promise<Connected> {
  const made = await connected({ branches: ['main'] })
  const answer = await link(api(), made.user, made.app.id, made.repository.fullName)
  if (answer.status !== 200) throw new Error(answer.text)
  return made
}

/** A signed push as it comes from the provider, so many bytes long at least. */
function push({ installation, repository }: Connected, bytes = 0, secret?: string) {
  const payload = appPush(provider, repository, { installationId: installation.id, commit: newCommit() })
  return appEvent(provider, 'push', { ...payload, filling: ' '.repeat(bytes) }, { secret })
}

const send = ({ headers, body }: { headers: Record<string, string>; body: string }, from = newAddress()) =>
  api()
    .as(undefined)
    .post('/v2/git/app', body, { ...headers, ...from })

test('declared bodies that never arrive delay no delivery', async t => {
  const made = await linked()
  const app = () => ({ headers: { ...anySignature, ...newAddress() }, declared: maxDeliveryBytes })
  const hook = await webhookOf(api(), made.user, made.app.id)
  const open = await Promise.all([
    ...Array.from({ length: 4 }, () => openBody(`${api().url}/v2/git/app`, app())),
    ...Array.from({ length: 8 }, () =>
      openBody(api().url + hook, { headers: newAddress(), declared: maxDeliveryBytes }),
    ),
  ])
  for (const body of open) await body.send(10)
  const signed = await send(push(made, 8 * megabyte))
  t.is(signed.status, 200, signed.text)
  const other = await linked()
  const delivered = await deliver(api(), await webhookOf(api(), other.user, other.app.id))
  t.is(delivered.status, 200, delivered.text)
  for (const body of open) body.close()
})

test('an address holds no more than its share, and small deliveries still pass', async t => {
  const made = await linked()
  const from = newAddress()
  const stranger = { headers: { ...anySignature, ...from }, declared: maxDeliveryBytes }
  const open = await Promise.all([1, 2].map(() => openBody(`${api().url}/v2/git/app`, stranger)))
  // Together they are over the share: one of them is refused, the one that is read last.
  void Promise.all(open.map(body => body.send(bodyBudgets.gitApp.share * 0.7)))
  t.is(await Promise.race(open.map(body => body.status)), 503)
  t.is((await send(push(made), from)).status, 200, 'a small one of the same address')
  t.is((await send(push(made, 2 * megabyte))).status, 200, 'a large one of another')
  for (const body of open) body.close()
})

test('an account holds no more than its share of the budget for webhooks', async t => {
  const [ana, bob] = [await linked(), await linked()]
  const hook = await webhookOf(api(), ana.user, ana.app.id)
  const open = await Promise.all(
    [1, 2].map(() => openBody(api().url + hook, { headers: newAddress(), declared: maxDeliveryBytes })),
  )
  void Promise.all(open.map(body => body.send(bodyBudgets.webhooks.share * 0.7)))
  t.is(await Promise.race(open.map(body => body.status)), 503)
  t.is((await deliver(api(), await webhookOf(api(), bob.user, bob.app.id))).status, 200)
  for (const body of open) body.close()
})

test('a network holds no more than its share of the budget for webhooks, whichever account owns them', async t => {
  const [ana, bob] = [await linked(), await linked()]
  const hooks = [await webhookOf(api(), ana.user, ana.app.id), await webhookOf(api(), bob.user, bob.app.id)]
  const open = await Promise.all(
    hooks.map((hook, n) =>
      openBody(api().url + hook, {
        headers: { 'x-forwarded-for': `2001:db8:0:7::${n + 1}` },
        declared: maxDeliveryBytes,
      }),
    ),
  )
  void Promise.all(open.map(body => body.send(bodyBudgets.webhooks.share * 0.7)))
  t.is(await Promise.race(open.map(body => body.status)), 503)
  t.is((await deliver(api(), hooks[0]!)).status, 200)
  for (const body of open) body.close()
})

test('an address that repeatedly signs large deliveries wrongly may send none for a while; small ones and those of others pass', async t => {
  const made = await linked()
  const from = newAddress()
  for (let n = 0; n <= unsignedDeliveries.allow; n++) t.is((await send(push(made, 0, 'wrong'), from)).status, 401)
  t.is((await send(push(made, 2 * megabyte), from)).status, 200, 'small ones count for nothing')
  for (let n = 0; n < unsignedDeliveries.allow; n++)
    t.is((await send(push(made, 1.1 * megabyte, 'wrong'), from)).status, 401)
  const large = { headers: { ...anySignature, ...from }, declared: 2 * megabyte }
  const refused = await openBody(`${api().url}/v2/git/app`, large)
  t.is(await refused.status, 503, 'before a byte of it came')
  refused.close()
  t.is((await send(push(made), from)).status, 200)
  t.is((await send(push(made, 2 * megabyte))).status, 200)
})

async function hooked(settings?: object) {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  return { ana, app, hook: await webhookOf(api(), ana, app.id, settings) }
}

const pushesOf = (appId: string) => api().db('deployments').where({ app_id: appId, trigger: 'webhook' })

/** A push to a webhook that has been looked up, and whose body comes once its end is requested. Resolves to the status. */
async function slowly(hook: string, secret?: string): Promise<() => Promise<number>> {
  const { headers, body } = pushEvent('github', {
    ...{ cloneUrl, ref: 'refs/heads/main', before: 'a'.repeat(40), after: newCommit(), secret },
  })
  const sending = request(api().url + hook, {
    method: 'POST',
    headers: { ...headers, expect: '100-continue', 'content-length': Buffer.byteLength(body) },
  })
  const answered = once(sending, 'response')
  sending.flushHeaders()
  await once(sending, 'continue')
  return async () => {
    sending.end(body)
    const [answer] = await answered
    return answer.resume().statusCode
  }
}

test('a delivery is checked against the secret that its webhook has on arrival', async t => {
  const changes: Record<string, [secret: string | null | undefined, status: number]> = {
    'another secret': ['another secret', 401],
    'the same secret again': ['a good secret', 200],
    'a new token only': [undefined, 200],
    'no secret any more': [null, 200],
  }
  for (const [change, [secret, status]] of Object.entries(changes)) {
    const { ana, app, hook } = await hooked({ secret: 'a good secret' })
    const end = await slowly(hook, 'a good secret')
    await webhookOf(api(), ana, app.id, { secret })
    t.is(await end(), status, change)
    t.is((await pushesOf(app.id)).length, status === 200 ? 1 : 0, change)
    const listed = await api().as(ana).get(`/v2/apps/${app.id}/webhook-deliveries`)
    t.like(listed.body.response[0], { verdict: status === 200 ? 'queued' : 'refused', reply: { status } }, change)
  }
  const { ana, app, hook } = await hooked()
  const end = await slowly(hook)
  await webhookOf(api(), ana, app.id, { secret: 'the first secret' })
  t.is(await end(), 401)
  t.deepEqual(await pushesOf(app.id), [])
})

test('a secret changes after the pushes that are being stored, to which it does not apply', async t => {
  const { ana, app } = await hooked({ secret: 'a good secret' })
  const { db } = api()
  const waiting = db('pg_stat_activity')
    .where({ wait_event_type: 'Lock', datname: db.raw('current_database()') })
    .whereLike('query', '%from "apps" where%for no key update%')
  const { changed } = await db.transaction(async trx => {
    await lockForDeploy(trx, app.id)
    const changed = webhookOf(api(), ana, app.id, { secret: 'another secret' })
    await comesTrue(async () => (await waiting.clone()).length > 0)
    return { changed }
  })
  t.regex(await changed, /webhook/)
})
