import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { mailLocales } from '../../policy/mail/template.ts'
import { authorizeText } from '../../policy/pages/authorize.ts'
import { type TestUser, testApi } from '../kit/actors/api.ts'
import { testBrowser } from '../kit/actors/browser.ts'
import { testMailbox } from '../kit/actors/mailbox.ts'
import { signIn } from '../kit/actors/sign-in-page.ts'
import { startBerth } from '../kit/command.ts'

const api = testApi()
const mailbox = testMailbox(api)
const browser = testBrowser()
const folder = mkdtempSync(join(tmpdir(), 'berth-authorize-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))

const emailOf = async ({ id }: TestUser): Promise<string> => (await api().db('users').where({ id }).first()).email

/** `berth login` waiting for its person, who has the page open and has signed in. */
async function askedBy(config: string) {
  const ana = await api().makeUser()
  const email = await emailOf(ana)
  const login = startBerth(['login', '--url', api().url], { XDG_CONFIG_HOME: config })
  await login.says(/authorize\?code=[0-9a-f]{64}/)
  const [, display = ''] = /signs (\S+):/.exec(login.said()) ?? []
  const [address = ''] = /http\S+authorize\?code=[0-9a-f]{64}/.exec(login.said()) ?? []
  const visitor = await browser().visit(address)
  await visitor.reads('we send a code to the address of your account')
  await signIn(visitor, email, mailbox())
  const page = await visitor.reads('A program asks for access')
  return { ana, email, login, display, visitor, page, address }
}

test.serial(
  'a person who grants `berth login` its key sees who asks for what, and comes back to the program',
  async t => {
    t.timeout(200_000)
    const { ana, email, login, display, visitor } = await askedBy(folder)
    const page = await visitor.reads('It requests these permissions')
    for (const part of [`berth on `, display, email, 'apps:deploy', 'account:read']) t.true(page.includes(part), part)
    await visitor.page.locator('button[name=granted]').click()
    await visitor.reads('Granted. You can close this page.')
    t.is(await login.ended, 0, login.said())
    const { apiKey } = JSON.parse(readFileSync(join(folder, 'berth/logins.json'), 'utf8'))[api().url]
    t.is((await api().as(apiKey).get('/v2/users/me')).body.response.user.id, ana.id)
    t.deepEqual(await visitor.page.browserContext().cookies(), [])
    t.deepEqual(visitor.complaints, [])
  },
)

test.serial('a person who denies it comes back too, and the same page says later that it is over', async t => {
  t.timeout(200_000)
  const { login, visitor, address } = await askedBy(join(folder, 'denied'))
  await visitor.page.locator('button[name=denied]').click()
  await visitor.reads('Denied. You can close this page.')
  t.is(await login.ended, 1)
  t.regex(login.said(), /denied in the browser/)
  await visitor.page.goto(address)
  await visitor.reads('This request was already decided or has expired.')
  t.deepEqual(visitor.complaints, [])
})

test.serial('an address without a code, or with a wrong one, is distinguished from a signed-out tab', async t => {
  const { session } = await api().makeUser()
  for (const query of ['', '?code=nonsense', `?code=${'0'.repeat(64)}`]) {
    const visitor = await browser().visit(`${api().url}/signin`)
    await visitor.page.evaluate(`sessionStorage.setItem('berth_session','${session}')`)
    await visitor.page.goto(`${api().url}/authorize${query}`)
    await visitor.reads('This request was already decided or has expired.')
    t.deepEqual(visitor.complaints, [], query)
  }
})

test.serial('the page speaks the language of the visitor', async t => {
  const { session } = await api().makeUser()
  for (const language of mailLocales) {
    const visitor = await browser().visit(`${api().url}/signin`, { language })
    await visitor.page.evaluate(`sessionStorage.setItem('berth_session','${session}')`)
    await visitor.page.goto(`${api().url}/authorize?code=${'0'.repeat(64)}`)
    const { title, intro, over } = authorizeText[language]
    const text = await visitor.reads(over)
    t.true(text.includes(title) && text.includes(intro), language)
    t.deepEqual(visitor.complaints, [], language)
  }
})
