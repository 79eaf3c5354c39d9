import test from 'ava'
import { siteverifyCaptcha } from '../../../activities/captcha/siteverify.ts'
import { sweepCaptchas } from '../../../db/accounts/captchas.ts'
import { captchaSettings } from '../../../policy/accounts/captcha.ts'
import { mailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { masterKey, type TestUser, testApi } from '../../kit/actors/api.ts'
import { hello } from '../../kit/actors/chat-api.ts'
import { CaptchaProviderServer } from '../../kit/servers/captcha-provider.ts'

/** Requests that say they come from a proxy that is trusted come from where it says; 203.0.113.0/24 is the country. */
let provider: CaptchaProviderServer
const api = testApi({
  config: { trustedProxies: ['127.0.0.1'] },
  services: () => ({
    asksCaptcha: address => address.startsWith('203.0.113.'),
    captcha: { solvedAt: (...asked) => siteverifyCaptcha(provider.settings()).solvedAt(...asked) },
  }),
})
test.before('start the provider', async () => {
  provider = await CaptchaProviderServer.start()
})
test.after.always('stop the provider', () => provider?.stop())

const here = '203.0.113.7'
const call = (method: string, path: string, body?: object, who?: string, from = here) =>
  api()
    .as(who)
    .request(method, path, { body: body && JSON.stringify(body), headers: { 'x-forwarded-for': from } })
const outcome = async (answer: ReturnType<typeof call>) => {
  const { status, body } = await answer
  return status === 200 ? 200 : `${status} ${body.code}`
}
const me = (who: string, from = here) => outcome(call('GET', '/v2/users/me', undefined, who, from))
const solveFor = (who: string, answer = provider.solve(), from = here) =>
  outcome(call('POST', '/v2/account/captcha', { answer }, who, from))
const begin = (email: string, captcha?: string, from = here) =>
  call('POST', '/v2/account/sign-in', { email, captcha }, undefined, from)
const emailOf = async ({ id }: TestUser): Promise<string> => (await api().db('users').where({ id }).first()).email
const mailsTo = async ({ id }: TestUser) => (await api().db('mails').where({ user_id: id })).length

test('a session from a country with a captcha must solve one; API keys and other countries need none', async t => {
  const ana = await api().makeUser()
  t.is(await me(ana.session), '403 CAPTCHA_REQUIRED')
  t.is(await me(ana.key), 200)
  t.is(await me(ana.session, '198.51.100.1'), 200)
  t.is(await outcome(call('GET', '/v2/account/apikey', undefined, ana.session)), '403 CAPTCHA_REQUIRED')
  t.is(await outcome(call('POST', '/v2/account/session', undefined, ana.session)), '403 CAPTCHA_REQUIRED')
  const asked = await call('POST', '/v2/ai/chat/completions', hello, ana.session)
  t.deepEqual([asked.status, asked.body.error.code], [403, 'captcha_required'])
  t.is(await outcome(call('GET', '/git/connect', undefined, ana.session)), '403 undefined', 'none is set up')
  t.is(await solveFor(ana.session), 200)
  t.is(await me(ana.session), 200, 'at once')
  t.is(await me(ana.session, '203.0.113.8'), '403 CAPTCHA_REQUIRED', 'it counts for the address that solved it')
})

test('requests that still need a captcha count against the budget of the account, and nothing else', async t => {
  const ana = await api().makeUser()
  for (let n = 0; n < 3; n++) t.is(await me(ana.session), '403 CAPTCHA_REQUIRED')
  const counted = await api().db('rate_limits').whereLike('key', `%${ana.id}%`).select('key', 'used')
  t.deepEqual(counted, [{ key: `budget/${ana.id}`, used: 3 }])
})

test('a captcha counts for one session only, and once', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const answer = provider.solve()
  t.is(await solveFor(ana.session, answer), 200)
  t.is(await me(bob.session), '403 CAPTCHA_REQUIRED')
  t.is(await solveFor(bob.session, answer), '403 CAPTCHA_REQUIRED')
  t.is(await me(bob.session), '403 CAPTCHA_REQUIRED')
})

test.serial('an answer counts once even if its provider forgets it, and even concurrently', async t => {
  const users = await Promise.all(Array.from({ length: 8 }, () => api().makeUser()))
  const { captcha } = api().services
  api().services.captcha = { solvedAt: async () => new Date() }
  t.teardown(() => {
    api().services.captcha = captcha
  })
  const outcomes = await Promise.all(users.map(({ session }) => solveFor(session, 'the same')))
  t.deepEqual(outcomes.sort(), [200, ...Array.from({ length: 7 }, () => '403 CAPTCHA_REQUIRED')])
})

test('a captcha that was solved more than ten minutes ago is too old', async t => {
  const ana = await api().makeUser()
  const ago = (seconds: number) => provider.solve({ at: new Date(Date.now() - seconds * 1000) })
  t.is(await solveFor(ana.session, ago(605)), '403 CAPTCHA_REQUIRED')
  t.is(await me(ana.session), '403 CAPTCHA_REQUIRED')
  t.is(await solveFor(ana.session, ago(580)), 200)
})

test('an answer from another address does not count, and a forged address has no effect', async t => {
  const ana = await api().makeUser()
  const answer = provider.solve({ address: '203.0.113.8' })
  t.is(await solveFor(ana.session, answer), '403 CAPTCHA_REQUIRED')
  // The last hop is what the trusted proxy saw; what stands before it was written by the visitor.
  t.is(await me(ana.session, `198.51.100.1, ${here}`), '403 CAPTCHA_REQUIRED')
  t.is(await solveFor(ana.session, provider.solve(), `203.0.113.9, ${here}`), 200)
  t.is(await me(ana.session), 200)
})

test('signing in from a country with a captcha needs one before a mail is sent; the session keeps it', async t => {
  const ana = await api().makeUser()
  const email = await emailOf(ana)
  t.is(await outcome(begin(email)), '403 CAPTCHA_REQUIRED')
  t.is(await outcome(begin(email, 'nonsense')), '403 CAPTCHA_REQUIRED')
  t.is(await mailsTo(ana), 0)
  const answer = provider.solve()
  const { id } = (await begin(email, answer)).body.response
  t.is(await mailsTo(ana), 1)
  t.is(await outcome(begin(email, answer)), '403 CAPTCHA_REQUIRED', 'once')
  t.is(await mailsTo(ana), 1)
  const code = mailedCode(masterKey, 'sign-in', id)
  const { token } = (await call('POST', '/v2/account/sign-in/code', { id, code })).body.response
  t.is(await me(token), 200)
  t.is(await me(token, '203.0.113.8'), '403 CAPTCHA_REQUIRED')
})

test('a code that is entered from another address gives a session that needs another captcha', async t => {
  const ana = await api().makeUser()
  const { id } = (await begin(await emailOf(ana), provider.solve())).body.response
  const code = mailedCode(masterKey, 'sign-in', id)
  const end = await call('POST', '/v2/account/sign-in/code', { id, code }, undefined, '203.0.113.8')
  for (const from of [here, '203.0.113.8']) t.is(await me(end.body.response.token, from), '403 CAPTCHA_REQUIRED')
})

test('a captcha that is not required may be sent and is ignored', async t => {
  const ana = await api().makeUser()
  t.is(await outcome(begin(await emailOf(ana), 'nonsense', '198.51.100.1')), 200)
  t.is(await outcome(begin(await emailOf(ana), 'x'.repeat(9000), '198.51.100.1')), '400 INVALID_REQUEST')
})

test.serial('an unavailable provider refuses everyone with a code of its own', async t => {
  const ana = await api().makeUser()
  const { captcha } = api().services
  api().services.captcha = siteverifyCaptcha({ ...provider.settings(), verifyUrl: 'http://127.0.0.1:1/' })
  t.teardown(() => {
    api().services.captcha = captcha
  })
  t.is(await solveFor(ana.session), '502 FAILED_TO_FETCH')
  t.is(await outcome(begin(await emailOf(ana), provider.solve())), '502 FAILED_TO_FETCH')
  t.is(await me(ana.session), '403 CAPTCHA_REQUIRED')
  t.is(await mailsTo(ana), 0)
  api().services.captcha = null
  t.is(await solveFor(ana.session), '502 VALIDATION_FAILED')
  t.is(await outcome(begin(await emailOf(ana), provider.solve())), '502 VALIDATION_FAILED')
  t.is(
    await outcome(call('POST', '/git/connect/callback', { offer: 'x' }, ana.session, '198.51.100.1')),
    '403 GITHUB_NOT_CONNECTED',
  )
})

test.serial('a provider that does not answer within 5 s refuses too', async t => {
  const ana = await api().makeUser()
  provider.takeOver = () => true
  t.teardown(() => {
    provider.takeOver = () => false
  })
  const asked = [solveFor(ana.session), outcome(begin(await emailOf(ana), provider.solve()))]
  t.deepEqual(await Promise.all(asked), ['504 VALIDATION_TIMEOUT', '504 VALIDATION_TIMEOUT'])
  t.is(await mailsTo(ana), 0)
})

test.serial('an unused captcha is deleted; that of a session is deleted with it', async t => {
  const ana = await api().makeUser()
  await begin(await emailOf(ana), provider.solve())
  await solveFor(ana.session)
  await api()
    .db('captchas')
    .update({ solved_at: new Date(Date.now() - 3_600_000) })
  await sweepCaptchas(api().db)
  t.is(await me(ana.session), 200)
  t.is((await api().db('captchas').whereNull('session_id')).length, 0)
  await api().db('sessions').where({ id: ana.sessionId }).delete()
  t.is((await api().db('captchas').where({ session_id: ana.sessionId })).length, 0)
})

test('the settings report what is missing, know their providers, and accept other addresses', t => {
  const whole = {
    CAPTCHA_COUNTRIES: 'br, pt',
    CAPTCHA_PROVIDER: 'hcaptcha',
    CAPTCHA_SITE_KEY: 'site',
    CAPTCHA_SECRET_KEY: 'secret',
  }
  t.is(captchaSettings({}), null)
  t.is(captchaSettings({ ...whole, CAPTCHA_COUNTRIES: '' }), null)
  t.like(captchaSettings(whole), {
    countries: ['BR', 'PT'],
    widget: 'hcaptcha',
    verifyUrl: 'https://api.hcaptcha.com/siteverify',
    sources: ['https://js.hcaptcha.com', 'https://hcaptcha.com', 'https://*.hcaptcha.com'],
  })
  const own = { ...whole, CAPTCHA_SCRIPT_URL: 'https://c.example.com/a.js', CAPTCHA_VERIFY_URL: 'http://10.0.0.1/v' }
  t.like(captchaSettings(own), { scriptUrl: 'https://c.example.com/a.js', verifyUrl: 'http://10.0.0.1/v' })
  t.is(captchaSettings(own)?.sources[0], 'https://c.example.com')
  for (const name of ['CAPTCHA_PROVIDER', 'CAPTCHA_SITE_KEY', 'CAPTCHA_SECRET_KEY'])
    t.throws(() => captchaSettings({ ...whole, [name]: undefined }), { message: new RegExp(name) })
  t.throws(() => captchaSettings({ ...whole, CAPTCHA_PROVIDER: 'other' }), { message: /CAPTCHA_PROVIDER.*turnstile/ })
  t.throws(() => captchaSettings({ ...whole, CAPTCHA_VERIFY_URL: 'ftp://x' }), { message: /CAPTCHA_VERIFY_URL/ })
  t.throws(() => captchaSettings({ ...whole, CAPTCHA_COUNTRIES: 'Brazil' }), { message: /CAPTCHA_COUNTRIES/ })
})
