import test from 'ava'
import { mailedCode } from '../../../../policy/accounts/mailed-codes.ts'
import { mailedCodes } from '../../../../workers/loops/mailed-codes.ts'
import { masterKey, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comingAgain, tally } from '../../../kit/actors/coming-again.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi()

const downgrade = (user: TestUser, body?: object) =>
  api()
    .as(user.session)
    .post('/v2/account/downgrade', body && JSON.stringify(body))
const open = (user: TestUser) =>
  api().db('downgrades').where({ user_id: user.id }).orderBy('created_at', 'desc').first()
const planOf = async (user: TestUser) => (await api().db('users').where({ id: user.id }).first()).plan
const codeOf = async (user: TestUser) => mailedCode(masterKey, 'downgrade', (await open(user)).id)
const age = (user: TestUser, seconds: number) =>
  api()
    .db('downgrades')
    .where({ user_id: user.id })
    .update({ expires_at: new Date(Date.now() - seconds * 1000) })

test('a code is mailed, and with it the account changes to the next lower plan', async t => {
  const ana = await api().makeUser({ plan: 'standard-6' })
  const sent = await downgrade(ana)
  t.deepEqual([sent.status, sent.text], [200, '{"status":"success","code":"CONFIRM_CODE_SENT"}'])
  t.is(await planOf(ana), 'standard-6')
  const code = await codeOf(ana)
  t.regex(code, /^[A-HJ-NP-Z2-9]{8}$/)
  const done = await downgrade(ana, { confirmCode: code })
  t.deepEqual([done.status, done.text], [200, '{"status":"success","code":"CONFIRM_CODE_VALIDATED"}'])
  t.is((await api().as(ana).get('/v2/users/me')).body.response.user.plan.name, 'standard-4')
  t.like(await open(ana), { state: 'applied', plan_from: 'standard-6', plan_to: 'standard-4' })
  const acts = await api().db('audit').where({ account_id: ana.id, action: 'account.downgrade' })
  t.is(acts.length, 2)
})

test('the code of the mail is in no row, and every attempt to send it has the same code', async t => {
  const ana = await api().makeUser()
  await downgrade(ana)
  const mail = await api().db('mails').where({ user_id: ana.id }).first()
  t.like(mail, { template: 'downgrade-code', fields: { from: 'enterprise-32', to: 'enterprise-24' } })
  const code = await codeOf(ana)
  for (let n = 0; n < 2; n++) t.deepEqual(mailedCodes(masterKey)['downgrade-code'](mail), { code })
  for (const table of ['mails', 'downgrades', 'audit', 'rate_limits', 'operations'])
    t.false(JSON.stringify(await api().db(table)).includes(code), table)
})

test('while a code is valid there is no other; an old one is refused', async t => {
  const ana = await api().makeUser()
  await downgrade(ana)
  const again = await downgrade(ana)
  t.deepEqual([again.status, again.body.code], [429, 'CONFIRM_CODE_SENT'])
  const wait = Number(again.headers.get('retry-after'))
  t.true(wait > 590 && wait <= 600, String(wait))
  const code = await codeOf(ana)
  await age(ana, 1)
  t.deepEqual(
    [(await downgrade(ana, { confirmCode: code })).body.code, await planOf(ana)],
    ['CONFIRM_CODE_INVALID', 'enterprise-32'],
  )
  t.is((await downgrade(ana)).body.code, 'CONFIRM_CODE_SENT')
  t.not(await codeOf(ana), code)
  t.is((await downgrade(ana, { confirmCode: code })).body.code, 'CONFIRM_CODE_INVALID', 'of the step before')
  const right = await codeOf(ana)
  for (const longer of [` ${right}`, `${right} `, `${right}\n`])
    t.is((await downgrade(ana, { confirmCode: longer })).body.code, 'CONFIRM_CODE_INVALID', 'exactly 8 characters')
  t.is((await downgrade(ana, { confirmCode: right })).body.code, 'CONFIRM_CODE_VALIDATED')
})

test('a wrong code leaves the right one valid, which works once', async t => {
  const ana = await api().makeUser()
  await downgrade(ana)
  const code = await codeOf(ana)
  for (const confirmCode of ['AAAAAAAA', '', 'x'.repeat(9), 7, null, {}])
    t.deepEqual([(await downgrade(ana, { confirmCode })).status, await planOf(ana)], [400, 'enterprise-32'])
  const bob = await api().makeUser()
  t.is((await downgrade(bob, { confirmCode: code })).body.code, 'CONFIRM_CODE_INVALID', 'of another account')
  t.is((await downgrade(ana, { confirmCode: code })).body.code, 'CONFIRM_CODE_VALIDATED')
  t.is((await downgrade(ana, { confirmCode: code })).body.code, 'CONFIRM_CODE_INVALID')
  t.is(await planOf(ana), 'enterprise-24')
})

test('a code allows twenty attempts, whatever the limits admit', async t => {
  const ana = await api().makeUser()
  await downgrade(ana)
  for (let n = 0; n < 20; n++) await downgrade(ana, { confirmCode: 'AAAAAAAA' })
  t.is((await downgrade(ana, { confirmCode: await codeOf(ana) })).body.code, 'CONFIRM_CODE_INVALID')
})

test.serial('two hundred concurrent confirmations are one step; two hundred requests are one mail', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-96' })
  const crowd = (body?: object) =>
    Promise.all(Array.from({ length: 200 }, () => comingAgain(() => downgrade(ana, body))))
  // A crowd that the pool cannot hold gets 503: none of it has done anything, and in the end each gets the outcome.
  t.deepEqual(tally((await crowd()).map(({ status, body }) => `${status} ${body.code}`)), {
    '200 CONFIRM_CODE_SENT': 1,
    '429 CONFIRM_CODE_SENT': 199,
  })
  t.is((await api().db('mails').where({ user_id: ana.id })).length, 1)
  const answers = await crowd({ confirmCode: await codeOf(ana) })
  t.deepEqual(tally(answers.map(({ status, body }) => `${status} ${body.code}`)), {
    '200 CONFIRM_CODE_VALIDATED': 1,
    '400 CONFIRM_CODE_INVALID': 199,
  })
  t.is(await planOf(ana), 'enterprise-64')
})

test('no plan, the lowest one and one that has ended cannot be lowered', async t => {
  const cases = [
    await api().makeUser({ plan: 'free' }),
    await api().makeUser({ plan: 'hobby-1' }),
    await api().makeUser({ plan: 'gone' }),
    await api().makeUser({ plan: 'pro-12', planEndsAt: new Date(Date.now() - 1000) }),
  ]
  for (const user of cases) {
    for (const answer of [await downgrade(user), await downgrade(user, { confirmCode: '123456' })])
      t.deepEqual([answer.status, answer.body.code], [403, 'DOWNGRADE_NOT_ALLOWED'])
    t.is(await api().db('mails').where({ user_id: user.id, template: 'downgrade-code' }).first(), undefined)
  }
})

test('usage beyond the lower plan refuses the step, even if it arises after the code', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  await downgrade(ana)
  const app = await api().makeApp(ana, { memoryMb: 2048 })
  const db = api().db
  const confirm = async () => downgrade(ana, { confirmCode: await codeOf(ana) })
  const refused = async (reason: RegExp) => {
    for (const answer of [await confirm(), await downgrade(ana)]) {
      t.deepEqual([answer.status, answer.body.code], [403, 'DOWNGRADE_NOT_ALLOWED'])
      t.regex(answer.body.message, reason)
    }
    t.is(await planOf(ana), 'standard-4')
  }
  const workspace = await makeWorkspace(db, ana)
  await refused(/You own 1 workspaces; the lower plan has 0/)
  await db('workspaces').where({ id: workspace.id }).delete()
  await db('domains').insert({ hostname: 'shop.example.org', owner_id: app.owner_id })
  await db('apps').where({ id: app.id }).update({ custom_domain: 'shop.example.org' })
  await refused(/1 applications have a custom domain/)
  await db('apps').where({ id: app.id }).update({ custom_domain: null, ram_mb: 2304 })
  await refused(/Applications and databases have 2304 MB; the lower plan has 2048 MB/)
  await db('apps').where({ id: app.id }).update({ ram_mb: 2048 })
  t.is((await confirm()).body.code, 'CONFIRM_CODE_VALIDATED')
  t.is(await planOf(ana), 'hobby-2')
})

test('a confirmed step that has become impossible is refused, and reported by mail', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  await downgrade(ana)
  const confirmCode = await codeOf(ana)
  const { downgrades } = api().services
  const wake = downgrades.wake.bind(downgrades)
  downgrades.wake = async userId => {
    if (userId === ana.id) await api().makeApp(ana, { memoryMb: 4096 })
    await wake(userId)
  }
  t.teardown(() => {
    downgrades.wake = wake
  })
  const answer = await downgrade(ana, { confirmCode })
  t.deepEqual([answer.status, answer.body.code, await planOf(ana)], [403, 'DOWNGRADE_NOT_ALLOWED', 'standard-4'])
  t.truthy(await api().db('mails').where({ user_id: ana.id, template: 'downgrade-refused' }).first())
})

test('an API key may not request it', async t => {
  const ana = await api().makeUser()
  const answer = await api().as(ana.key).post('/v2/account/downgrade')
  t.deepEqual([answer.status, answer.body.code], [401, 'ACCESS_DENIED'])
})
