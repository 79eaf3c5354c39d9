import test from 'ava'
import { listInstallations } from '../../db/git/git-links.ts'
import { gitBeginText } from '../../policy/pages/git-begin.ts'
import { gitConnectText } from '../../policy/pages/git-connect.ts'
import type { TestUser } from '../kit/actors/api.ts'
import { testBrowser, type Visitor } from '../kit/actors/browser.ts'
import { testProviderApi } from '../kit/git/connected.ts'

const { api, provider } = await testProviderApi()
const browser = testBrowser()

/** A tab in which somebody is signed in, with the cookie of a connection that `owner` began, and where the provider sends it. */
async function sentBack(owner: TestUser, signedIn: TestUser | undefined, language?: string) {
  const person = provider.person()
  const installation = provider.install(person.login, [], person)
  const started = await api().as(owner.session).post('/git/connect', '{"installed":true}')
  const state = new URL(started.body.response.url).searchParams.get('state')!
  const [name = '', value = ''] = started.headers.get('set-cookie')!.split(';')[0]!.split('=')
  const visitor = await browser().visit(`${api().url}/signin`, { language })
  if (signedIn) await visitor.page.evaluate(`sessionStorage.setItem('berth_session','${signedIn.session}')`)
  await visitor.page
    .browserContext()
    .setCookie({ name, value, domain: '127.0.0.1', path: '/git/connect', httpOnly: true })
  await visitor.page.goto(
    `${api().url}/git/connect/callback?${new URLSearchParams({ state, code: provider.code(person) })}`,
  )
  return { visitor, person, installation }
}

const click = ({ page }: Visitor) => page.locator('#offer button').click()
const bound = async (user: TestUser) => (await listInstallations(api().db, user.id)).map(({ id }) => id)
const emailOf = async ({ id }: TestUser): Promise<string> => (await api().db('users').where({ id }).first()).email

test.serial('a person reads what would be connected with whom, and one click connects it', async t => {
  const ana = await api().makeUser()
  const { visitor, person, installation } = await sentBack(ana, ana)
  const page = await visitor.reads('Connect the git provider?')
  for (const part of [await emailOf(ana), person.login]) t.true(page.includes(part), part)
  t.deepEqual(await bound(ana), [])
  await click(visitor)
  await visitor.reads('Connected. You can close this page.')
  t.deepEqual(await bound(ana), [installation.id])
  t.deepEqual(visitor.complaints, [])
})

test.serial('a visitor with somebody else’s connection connects nothing, even by the click', async t => {
  const [mallory, victim] = [await api().makeUser(), await api().makeUser()]
  const { visitor } = await sentBack(mallory, victim)
  t.true((await visitor.reads('Connect the git provider?')).includes(await emailOf(mallory)))
  await click(visitor)
  await visitor.reads('This session belongs to another account. Nothing was connected.')
  t.deepEqual([await bound(mallory), await bound(victim)], [[], []])
  t.deepEqual(visitor.complaints, [])
})

test.serial('a tab without a session asks for it, in the language of the visitor', async t => {
  for (const language of ['en-US', 'de-DE'] as const) {
    const ana = await api().makeUser()
    const { visitor, installation } = await sentBack(ana, undefined, language)
    const { title, session, connected } = gitConnectText[language]
    t.true((await visitor.reads(session)).includes(title), language)
    await visitor.page.locator('#session').fill(ana.session)
    await click(visitor)
    await visitor.reads(connected)
    t.deepEqual(await bound(ana), [installation.id], language)
    t.deepEqual(visitor.complaints, [], language)
  }
})

test.serial('the first page speaks the language of the visitor, and says what is wrong in it', async t => {
  for (const language of ['pt-BR', 'ja-JP'] as const) {
    const visitor = await browser().visit(`${api().url}/git/connect`, { language })
    const { title, intro, kept, session, choose, chosen, wrong } = gitBeginText[language]
    const page = await visitor.reads(title)
    for (const part of [intro, kept, session, choose, chosen]) t.true(page.includes(part), `${language}: ${part}`)
    t.is(await visitor.page.evaluate('document.documentElement.lang'), language)
    await visitor.page.locator('#session').fill('not-a-session')
    await visitor.page.locator('button[name=install]').click()
    await visitor.reads(wrong)
  }
})

test.serial('a user who begins on the page with a session token comes back to a tab that still has it', async t => {
  const ana = await api().makeUser()
  const visitor = await browser().visit(`${api().url}/git/connect`)
  await visitor.page.locator('#session').fill(ana.session)
  await visitor.page.locator('button[name=installed]').click()
  await visitor.page.waitForFunction(`location.pathname==='/login/oauth/authorize'`)
  await visitor.page.goto(`${api().url}/git/connect`)
  await visitor.reads('Connect the git provider')
  t.is(await visitor.page.evaluate(`document.getElementById('session').value`), ana.session)
})
