import test from 'ava'
import { inDoubtMessage } from '../../policy/errors.ts'
import { mailLocales } from '../../policy/mail/template.ts'
import { refusalText } from '../../policy/pages/refusals.ts'
import { signInText } from '../../policy/pages/sign-in.ts'
import { type TestUser, testApi } from '../kit/actors/api.ts'
import { testBrowser } from '../kit/actors/browser.ts'
import { testMailbox } from '../kit/actors/mailbox.ts'
import { sessionOf, signIn, submit } from '../kit/actors/sign-in-page.ts'

const api = testApi()
const mailbox = testMailbox(api)
const browser = testBrowser()

const visit = (language?: string) => browser().visit(`${api().url}/signin`, { language })
const emailOf = async ({ id }: TestUser): Promise<string> => (await api().db('users').where({ id }).first()).email
test.serial('a person signs in with the code of the mail, without any cookie', async t => {
  const ana = await api().makeUser()
  const email = await emailOf(ana)
  const visitor = await visit()
  await visitor.reads('No password needed')
  await submit(visitor, 'address', ` ${email} `)
  await visitor.reads('It is valid for 10 minutes.')
  t.is(await visitor.page.evaluate('document.activeElement.autocomplete'), 'one-time-code')
  await submit(visitor, 'code', (await mailbox().codeFor(email)).toLowerCase())
  await visitor.reads(/You are signed in, in this tab, until \d/)
  const { body } = await api()
    .as(await sessionOf(visitor.page))
    .get('/v2/users/me')
  t.is(body.response.user.id, ana.id)
  t.deepEqual(await visitor.page.browserContext().cookies(), [])
  t.deepEqual(visitor.complaints, [])
})

test.serial('a wrong code is reported, the right one still works, and another one can be requested', async t => {
  const email = await emailOf(await api().makeUser())
  const visitor = await visit()
  await submit(visitor, 'address', email)
  await visitor.reads('a code is on its way')
  await submit(visitor, 'code', 'AAAAAAAA')
  await visitor.reads('The code is wrong, already used, or expired.')
  t.is(await sessionOf(visitor.page), '')
  const first = await mailbox().codeFor(email)
  await visitor.page.locator('#again').click()
  await visitor.page.locator('#address button').click()
  await visitor.reads('a code is on its way')
  const second = await mailbox().codeFor(email)
  t.not(first, second)
  await submit(visitor, 'code', first)
  await visitor.reads('The code is wrong')
  await submit(visitor, 'code', second)
  await visitor.reads('You are signed in')
  t.deepEqual(visitor.complaints, [])
})

test.serial('an address without an account sees the same page', async t => {
  const visitor = await visit()
  await submit(visitor, 'address', 'nobody@example.org')
  await visitor.reads('If the address belongs to an account, a code is on its way.')
  await submit(visitor, 'code', 'AAAAAAAA')
  await visitor.reads('The code is wrong')
  t.deepEqual(visitor.complaints, [])
})

test.serial('the page speaks the language of the visitor, and says so', async t => {
  for (const language of mailLocales) {
    const { title, intro, email, send, code, enter } = signInText[language]
    const visitor = await visit(language)
    const text = await visitor.reads(intro)
    for (const part of [title, email, send]) t.true(text.includes(part), `${language}: ${part}`)
    t.is(await visitor.page.evaluate('document.documentElement.lang'), language)
    t.true((await visitor.page.title()).startsWith(title))
    await submit(visitor, 'address', 'nobody@example.org')
    const then = await visitor.reads(code)
    t.true(then.includes(enter) && !then.includes('{'), then)
    t.deepEqual(visitor.complaints, [], language)
  }
})

test.serial('a platform that does not answer is reported, and the page can be tried again', async t => {
  const visitor = await visit()
  await visitor.page.setOfflineMode(true)
  await submit(visitor, 'address', 'nobody@example.org')
  await visitor.reads('The platform does not respond.')
  await visitor.page.setOfflineMode(false)
  await visitor.page.locator('#address button').click()
  await visitor.reads('a code is on its way')
  t.pass()
})

test.serial('an action that may have been done is reported as that, and not as one to repeat immediately', async t => {
  const refused = JSON.stringify({ status: 'error', code: 'DATABASE_UNAVAILABLE', message: inDoubtMessage })
  for (const language of ['pt-BR', 'de-DE'] as const) {
    const visitor = await visit(language)
    await visitor.page.evaluate(`window.fetch=async()=>new Response(${JSON.stringify(refused)},{status:503})`)
    await submit(visitor, 'address', 'nobody@example.org')
    const { unknown, away } = refusalText[language]
    t.false((await visitor.reads(unknown)).includes(away), language)
  }
})

test.serial('nothing that stands in the address of the page leads away from the platform', async t => {
  for (const next of ['https://example.org/', '//example.org', 'javascript:alert(1)', '../x', 'a/../../b']) {
    const email = await emailOf(await api().makeUser())
    const visitor = await browser().visit(`${api().url}/signin?next=${encodeURIComponent(next)}`)
    await signIn(visitor, email, mailbox())
    await visitor.reads('You are signed in')
    t.is(new URL(visitor.page.url()).origin, api().url, next)
    t.deepEqual(visitor.complaints, [], next)
  }
})
