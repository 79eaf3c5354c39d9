import { createHash } from 'node:crypto'
import test from 'ava'
import { siteverifyCaptcha } from '../../activities/captcha/siteverify.ts'
import { type TestUser, testApi } from '../kit/actors/api.ts'
import { testBrowser, type Visitor } from '../kit/actors/browser.ts'
import { testMailbox } from '../kit/actors/mailbox.ts'
import { sessionOf, signIn, submit } from '../kit/actors/sign-in-page.ts'
import { CaptchaProviderServer } from '../kit/servers/captcha-provider.ts'

/** Everybody comes from a country whose people solve one, until a test says otherwise. */
let asked = true
let kind: 'turnstile' | 'hcaptcha' | 'recaptcha' = 'turnstile'
let provider: CaptchaProviderServer
test.before('start the provider', async () => {
  provider = await CaptchaProviderServer.start()
})
test.after.always('stop the provider', () => provider?.stop())
const api = testApi({
  services: ({ config }) => ({
    config: Object.defineProperty({ ...config }, 'captcha', { get: () => provider.settings(kind) }),
    asksCaptcha: () => asked,
    captcha: { solvedAt: (...given) => siteverifyCaptcha(provider.settings()).solvedAt(...given) },
  }),
})
const mailbox = testMailbox(api)
const browser = testBrowser()

const emailOf = async ({ id }: TestUser): Promise<string> => (await api().db('users').where({ id }).first()).email

/** Presses the button that the provider shows in its own frame. */
async function solve({ page }: Visitor): Promise<void> {
  const element = await page.waitForSelector('#captcha iframe')
  const frame = await element!.contentFrame()
  await (await frame.waitForSelector('button'))!.click()
  await frame.waitForFunction('document.body.dataset.answered')
}

for (const name of ['turnstile', 'hcaptcha', 'recaptcha'] as const)
  test.serial(`a visitor solves the captcha of ${name}, and signs in`, async t => {
    kind = name
    const ana = await api().makeUser()
    const email = await emailOf(ana)
    const visitor = await browser().visit(`${api().url}/signin`)
    await submit(visitor, 'address', email)
    await visitor.reads('Solve the captcha first.')
    t.is((await api().db('mails').where({ user_id: ana.id })).length, 0)
    await solve(visitor)
    await signIn(visitor, email, mailbox())
    await visitor.reads('You are signed in')
    const { body } = await api()
      .as(await sessionOf(visitor.page))
      .get('/v2/users/me')
    t.is(body.response.user.id, ana.id)
    t.deepEqual(await visitor.page.browserContext().cookies(), [])
    t.deepEqual(visitor.complaints, [])
  })

test.serial('asking for another code takes another captcha', async t => {
  const email = await emailOf(await api().makeUser())
  const visitor = await browser().visit(`${api().url}/signin`)
  await solve(visitor)
  await submit(visitor, 'address', email)
  await visitor.reads('a code is on its way')
  await visitor.page.locator('#again').click()
  await visitor.page.locator('#address button').click()
  await visitor.reads('Solve the captcha first.')
  await solve(visitor)
  await visitor.page.locator('#address button').click()
  await visitor.reads('a code is on its way')
  t.deepEqual(visitor.complaints, [])
})

test.serial('a session that needs one is asked on the page that it came for', async t => {
  const { session } = await api().makeUser()
  const challenge = createHash('sha256').update('verifier').digest('base64url')
  const request = { client_id: 'a program', redirect_uri: 'http://127.0.0.1:7/', scopes: ['apps:read'], challenge }
  const started = await api()
    .as(undefined)
    .post('/v2/account/authorize/start', JSON.stringify({ ...request, challenge_method: 'S256' }))
  const visitor = await browser().visit(`${api().url}/signin`)
  await visitor.page.evaluate(`sessionStorage.setItem('berth_session','${session}')`)
  await visitor.page.goto(`${api().url}/authorize?code=${started.body.response.code}`)
  t.false((await visitor.reads('Solve the captcha first.')).includes('a program'))
  await solve(visitor)
  t.false((await visitor.reads(/a program\n/)).includes('captcha'))
  t.deepEqual(visitor.complaints, [])
})

test.serial('a provider that is away is reported, and nobody passes', async t => {
  provider.takeOver = (_, response) => {
    response.destroy()
    return true
  }
  t.teardown(() => {
    provider.takeOver = () => false
  })
  const visitor = await browser().visit(`${api().url}/signin`)
  await visitor.reads('The captcha could not be checked. Try again later.')
  t.pass()
})

test.serial('the pages of everybody else allow nothing from elsewhere', async t => {
  const policyOf = async (path: string) => {
    const { headers } = await api().as(undefined).get(path)
    return [headers.get('content-security-policy') ?? '', headers.get('referrer-policy')] as const
  }
  for (const path of ['/signin', '/authorize']) {
    asked = true
    const [policy, referrer] = await policyOf(path)
    t.regex(policy, new RegExp(`script-src 'sha256-[^']+' ${provider.url} .*frame-src ${provider.url} `), path)
    t.is(referrer, 'origin')
    asked = false
    const [plain, none] = await policyOf(path)
    t.false(/http|frame-src/.test(plain), plain)
    t.is(none, 'no-referrer')
  }
  const visitor = await browser().visit(`${api().url}/signin`)
  t.is(await visitor.page.$('#captcha iframe'), null)
  asked = true
  t.deepEqual(visitor.complaints, [])
})
