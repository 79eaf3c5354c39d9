import { createHmac } from 'node:crypto'
import test from 'ava'
import { largeDeliveries, smallDeliveryBytes } from '../../../../policy/body-budgets.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { openBody } from '../../../kit/actors/open-body.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { cloneUrl, deliver, newCommit, webhookOf } from '../../../kit/git/deliveries.ts'
import { pushEvent } from '../../../kit/git/git-events.ts'
import { parsingThreads } from '../../../kit/parsing-threads.ts'

const api = testApi({ scale: 1 })
const secret = 'a good secret'

async function hooked() {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  return { ana, app, hook: await webhookOf(api(), ana, app.id, { secret }) }
}

/** A push with more fields, as JSON or as a form. */
function push(more: object, { signedWith = secret, form = false } = {}) {
  const one = { cloneUrl, ref: 'refs/heads/main', before: 'a'.repeat(40), after: newCommit() }
  const { headers, body: json } = pushEvent('github', one)
  const text = JSON.stringify({ ...JSON.parse(json), ...more })
  const body = form ? new URLSearchParams({ payload: text }).toString() : text
  const type = form ? 'application/x-www-form-urlencoded' : 'application/json'
  const signature = `sha256=${createHmac('sha256', signedWith).update(body).digest('hex')}`
  return { body, headers: { ...headers, 'content-type': type, 'x-hub-signature-256': signature } }
}

const send = (hook: string, { body, headers }: ReturnType<typeof push>) => api().as(undefined).post(hook, body, headers)

test.serial('a large push is parsed in a thread, after its signature was verified; a small one is not', async t => {
  const { hook } = await hooked()
  const commits = { commits: Array.from({ length: 10_000 }, (_, n) => ({ id: n, message: 'x'.repeat(40) })) }
  const threads = parsingThreads(t)
  t.is((await send(hook, push({}))).status, 200)
  t.is((await send(hook, push(commits, { signedWith: 'a wrong secret' }))).status, 401)
  t.is(threads().started, 0)
  const stored = await send(hook, push(commits))
  t.is(stored.status, 200, stored.text)
  const form = await send(hook, push(commits, { form: true }))
  t.is(form.status, 200, form.text)
  t.is(threads().started, 2)
})

test.serial('a small delivery of over 5,000 values is parsed in a thread too', async t => {
  const { hook } = await hooked()
  const dense = { commits: Array.from({ length: 25_000 }, () => []) }
  const threads = parsingThreads(t)
  t.is((await send(hook, push(dense, { signedWith: 'a wrong secret' }))).status, 401)
  t.is((await send(hook, push({ text: 'x'.repeat(100_000) }))).status, 200)
  t.is(threads().started, 0)
  for (const form of [false, true]) t.is((await send(hook, push(dense, { form }))).status, 200)
  t.is(threads().started, 2)
})

test.serial('a delivery whose JSON has over a million values is refused before it is parsed', async t => {
  const { hook } = await hooked()
  const deep = JSON.parse(`${'['.repeat(50)}1${']'.repeat(50)}`)
  const dense = { commits: Array.from({ length: 25_000 }, () => deep) }
  for (const form of [false, true]) {
    const answer = await send(hook, push(dense, { form }))
    t.is(answer.status, 413, answer.text)
    t.regex(answer.text, /^refused: .*1,000,000 values; nothing was deployed/)
  }
})

test.serial(
  'a webhook that accepts nothing at present refuses bodies before they arrive, except small ones',
  async t => {
    const { ana, hook } = await hooked()
    const stored = { deliveryId: 'stored', commit: newCommit(), secret }
    t.is((await deliver(api(), hook, stored)).status, 200)
    const more = await Promise.all(Array.from({ length: 24 }, () => deliver(api(), hook, { secret })))
    t.true(more.some(({ status }) => status === 429))
    const large = await openBody(api().url + hook, { declared: smallDeliveryBytes + 1 })
    t.is(await large.status, 429)
    large.close()
    const refused = await send(hook, push({ text: 'x'.repeat(smallDeliveryBytes) }))
    t.like(refused, { status: 429, body: { status: 'error', code: 'KEEP_CALM' } })
    t.true(Number(refused.headers.get('retry-after')) >= 1)
    t.is((await deliver(api(), hook, stored)).status, 200, 'a repeated delivery is free')
    const other = await webhookOf(api(), ana, (await api().makeApp(ana)).id, { secret })
    t.is((await send(other, push({ text: 'x'.repeat(smallDeliveryBytes) }))).status, 200, 'another webhook')
  },
)

test.serial(
  'an owner of too many large deliveries may send none for a while; small ones and those of others pass',
  async t => {
    const [ana, bob] = [await hooked(), await hooked()]
    const text = { text: 'x'.repeat(300_000) }
    /** A body that arrives, of a client that then leaves the queue for a thread. */
    const leave = async () => {
      const { body, headers } = push(text)
      const open = await openBody(api().url + ana.hook, { headers, declared: body.length })
      await open.send(Buffer.from(body))
      open.close()
    }
    await Promise.all(Array.from({ length: largeDeliveries.allow - 1 }, leave))
    t.is((await send(ana.hook, push(text))).status, 200)
    await comesTrue(async () => (await send(ana.hook, push(text))).status === 503)
    t.is((await deliver(api(), ana.hook, { secret })).status, 200)
    t.is((await send(bob.hook, push(text))).status, 200)
  },
)
