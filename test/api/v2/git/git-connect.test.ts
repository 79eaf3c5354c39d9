import test from 'ava'
import { SignJWT } from 'jose'
import { githubProvider } from '../../../../activities/git-provider/github.ts'
import { setBlocked } from '../../../../db/accounts/accounts.ts'
import { listInstallations } from '../../../../db/git/git-links.ts'
import { parseConfig } from '../../../../policy/config.ts'
import { deriveKey } from '../../../../policy/keys.ts'
import { mailLocales } from '../../../../policy/mail/template.ts'
import { gitBeginText } from '../../../../policy/pages/git-begin.ts'
import { type Answer, masterKey, openApiFor, type TestUser } from '../../../kit/actors/api.ts'
import { testProviderApi } from '../../../kit/git/connected.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const logged: unknown[] = []
const keep = (fields: object, message: string) => void logged.push(fields, message)
const { api, provider } = await testProviderApi({
  services: () => ({ log: { info: keep, warn: keep, error: keep } }),
})

const database = testDatabase()

test.afterEach(() => {
  provider.takeOver = () => false
})

interface Visit {
  state: string
  cookie: string
}

/** Sets out to the provider with a session; what the browser carries. */
async function setOut(user: TestUser): Promise<Visit> {
  const answer = await api().as(user.session).get('/git/connect')
  const location = new URL(answer.headers.get('location') ?? '')
  if (location.pathname !== '/apps/berth-test/installations/new') throw new Error(location.href)
  const cookie = answer.headers.get('set-cookie') ?? ''
  if (!/; HttpOnly; SameSite=Lax$/.test(cookie)) throw new Error(cookie)
  return { state: location.searchParams.get('state')!, cookie: cookie.split(';')[0]! }
}

const comeBack = ({ cookie, state }: Visit, query: Record<string, string | number>) =>
  api()
    .as(undefined)
    .get(`/git/connect/callback?${new URLSearchParams({ state, ...(query as Record<string, string>) })}`, { cookie })

/** What the last page carries, to be shown with the click. */
const offerIn = ({ text }: Answer): string => /"offer":"([\w.-]+)"/.exec(text)?.[1] ?? ''

const agree = (user: TestUser, cookie: string, offer: string) =>
  api().as(user.session).post('/git/connect/callback', JSON.stringify({ offer }), { cookie })

const bound = async (user: TestUser) => (await listInstallations(api().db, user.id)).map(({ id }) => id)

test.serial('a user who returns with a code is bound to the new installation', async t => {
  const user = await api().makeUser()
  const person = provider.person()
  const installation = provider.install(person.login, [], person)
  const other = provider.install('elsewhere', [], person)
  const visit = await setOut(user)
  const answer = await comeBack(visit, { code: provider.code(person), installation_id: installation.id })
  t.is(answer.status, 200, answer.text)
  const { email } = await api().db('users').where({ id: user.id }).first()
  t.true(answer.text.includes(person.login) && answer.text.includes(email))
  t.regex(answer.headers.get('content-security-policy') ?? '', /default-src 'none'.*frame-ancestors 'none'/)
  t.deepEqual(await bound(user), [], 'nothing before the click')
  const agreed = await agree(user, visit.cookie, offerIn(answer))
  t.is(agreed.status, 200, agreed.text)
  t.regex(agreed.headers.get('set-cookie') ?? '', /Max-Age=0/)
  t.deepEqual(await bound(user), [installation.id])
  t.false((await bound(user)).includes(other.id))
})

test.serial('without a code the provider first identifies the user', async t => {
  const user = await api().makeUser()
  const person = provider.person()
  const installation = provider.install(person.login, [], person)
  provider.install('elsewhere', [], person)
  const visit = await setOut(user)
  const sent = await comeBack(visit, { installation_id: installation.id, setup_action: 'install' })
  t.is(sent.status, 302)
  const location = new URL(sent.headers.get('location') ?? '')
  t.is(location.pathname, '/login/oauth/authorize')
  t.is(location.searchParams.get('client_id'), provider.settings.clientId)
  t.is(location.searchParams.get('redirect_uri'), `${api().services.config.urls.base}/git/connect/callback`)
  const state = location.searchParams.get('state')!
  const answer = await comeBack({ ...visit, state }, { code: provider.code(person) })
  t.is((await agree(user, visit.cookie, offerIn(answer))).status, 200)
  t.deepEqual(await bound(user), [installation.id])
})

test.serial('the page starts with a session in a header, and signing in binds existing installations', async t => {
  const user = await api().makeUser()
  const person = provider.person()
  const first = provider.install(person.login, [], person)
  const second = provider.install('organization', [], person)
  const asked = await api().as(undefined).get('/git/connect')
  t.is(asked.status, 200)
  t.true(asked.text.includes('Session token'))
  for (const language of mailLocales) {
    const { text, headers } = await api().as(undefined).get('/git/connect', { 'accept-language': language })
    t.true(text.includes(`<html lang="${language}">`), language)
    t.true(text.includes(`<h1>${gitBeginText[language].title}</h1>`), language)
    t.is(headers.get('vary'), 'Accept-Language')
  }
  const started = await api().as(user.session).post('/git/connect', '{"installed":true}')
  const url = new URL(started.body.response.url)
  t.is(url.pathname, '/login/oauth/authorize')
  const cookie = started.headers.get('set-cookie')!.split(';')[0]!
  const state = url.searchParams.get('state')!
  const offered = await comeBack({ cookie, state }, { code: provider.code(person) })
  t.is((await agree(user, cookie, offerIn(offered))).status, 200)
  t.deepEqual(await bound(user), [first.id, second.id])
  t.like((await api().as(user).get('/v2/account/audit')).body.response.entries[0], {
    actor: user.id,
    action: 'git.connect.confirm',
  })
  for (const answer of [await api().as(user).get('/git/connect'), await api().as(user).post('/git/connect')])
    t.deepEqual([answer.status, answer.body.code], [401, 'ACCESS_DENIED'])
})

test.serial('a session from a country with a captcha is redirected once one is solved', async t => {
  const user = await api().makeUser()
  const { asksCaptcha } = api().services
  api().services.asksCaptcha = () => true
  t.teardown(() => {
    api().services.asksCaptcha = asksCaptcha
  })
  t.like(await api().as(user.session).get('/git/connect'), { status: 403, body: { code: 'CAPTCHA_REQUIRED' } })
})

test.serial('an installation of another user, or an unknown one, is never bound', async t => {
  const user = await api().makeUser()
  const person = provider.person()
  const foreign = provider.install('victim', [], provider.person('victim'))
  const visit = await setOut(user)
  for (const id of [foreign.id, 99_999_999]) {
    const answer = await comeBack(visit, { code: provider.code(person), installation_id: id })
    t.is(answer.status, 403)
  }
  t.is((await comeBack(visit, { code: provider.code(person) })).status, 403)
  t.is((await comeBack(visit, { code: 'never-issued', installation_id: foreign.id })).status, 403)
  t.is((await comeBack(visit, { error: 'access_denied' })).status, 403)
  t.is((await comeBack(visit, { setup_action: 'request' })).status, 200)
  const spent = provider.code(person)
  await comeBack(visit, { code: spent, installation_id: foreign.id })
  t.is((await comeBack(visit, { code: spent, installation_id: foreign.id })).status, 403)
  t.deepEqual(await bound(user), [])
})

test.serial('a state of another browser, a forged or old one and one of a blocked account are refused', async t => {
  const [ana, mallory] = [await api().makeUser(), await api().makeUser()]
  const person = provider.person()
  const installation = provider.install(person.login, [], person)
  const [hers, his] = [await setOut(ana), await setOut(mallory)]
  const claims = async (key: Uint8Array, expires: string | number, alg = 'HS256') =>
    new SignJWT({ browser: JSON.parse(Buffer.from(hers.state.split('.')[1]!, 'base64url').toString()).browser })
      .setProtectedHeader({ alg })
      .setSubject(mallory.id)
      .setAudience('berth-git-connect')
      .setExpirationTime(expires)
      .sign(key)
  const key = deriveKey(masterKey, 'git-connect')
  const [head, body, signature] = hers.state.split('.') as [string, string, string]
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`
  const forged: [string, string][] = [
    [his.state, hers.cookie],
    [hers.state, ''],
    [hers.state, his.cookie],
    ['', hers.cookie],
    [none, hers.cookie],
    [`${head}.${body}.${signature.slice(0, -2)}AA`, hers.cookie],
    [await claims(deriveKey(masterKey, 'session'), '5m'), hers.cookie],
    [await claims(key, Math.floor(Date.now() / 1000) - 5), hers.cookie],
    [ana.session, hers.cookie],
  ]
  const asked = provider.requests.length
  for (const [state, cookie] of forged) {
    const answer = await comeBack({ state, cookie }, { code: 'any', installation_id: installation.id })
    t.is(answer.status, 400, state)
  }
  await setBlocked(api().db, ana.id, true)
  t.is((await comeBack(hers, { code: 'any', installation_id: installation.id })).status, 400)
  t.is(provider.requests.length, asked)
  t.deepEqual([await bound(ana), await bound(mallory)], [[], []])
})

test.serial('a failing provider is reported by a page; no token or secret is sent or logged', async t => {
  const user = await api().makeUser()
  const person = provider.person('<b>tag</b>')
  const installation = provider.install('<i>x</i>', [], person)
  const visit = await setOut(user)
  provider.takeOver = (_, response) => {
    response.writeHead(500).end()
    return true
  }
  const troubled = await comeBack(visit, { code: provider.code(person), installation_id: installation.id })
  t.is(troubled.status, 502)
  t.true(troubled.text.includes('FAILED_TO_FETCH'))
  provider.takeOver = () => false
  const answer = await comeBack(visit, { code: provider.code(person), installation_id: installation.id })
  t.is(answer.status, 200)
  t.is((await agree(user, visit.cookie, offerIn(answer))).status, 200)
  t.false(answer.text.includes('<b>tag') || answer.text.includes('<i>x'))
  const rows = await api().db('git_installations').select('*')
  const said = JSON.stringify([logged, rows, answer.text, troubled.text])
  for (const secret of [...provider.issued, provider.clientSecret, provider.webhookSecret, visit.state])
    t.false(said.includes(secret))
  t.true(provider.issued.length > 0)
})

test.serial('a visitor who is sent through the provider with another user’s connection has nothing bound', async t => {
  const [mallory, victim] = [await api().makeUser(), await api().makeUser()]
  const person = provider.person()
  provider.install(person.login, [], person)
  // State and cookie are the attacker's, slipped into the browser of the victim, whom the provider asks nothing.
  const started = await api().as(mallory.session).post('/git/connect', '{"installed":true}')
  const state = new URL(started.body.response.url).searchParams.get('state')!
  const cookie = started.headers.get('set-cookie')!.split(';')[0]!
  const page = await comeBack({ cookie, state }, { code: provider.code(person) })
  t.is(page.status, 200)
  t.deepEqual(await bound(mallory), [], 'not by coming back')
  const { email } = await api().db('users').where({ id: mallory.id }).first()
  t.true(page.text.includes(email), 'the victim reads whose account it is')
  // The victim clicks all the same: their session belongs to another account.
  const clicked = await agree(victim, cookie, offerIn(page))
  t.deepEqual([clicked.status, clicked.body.code], [403, 'PERMISSION_DENIED'])
  const nobody = await api()
    .as(undefined)
    .post('/git/connect/callback', JSON.stringify({ offer: offerIn(page) }), { cookie })
  t.deepEqual([nobody.status, nobody.body.code], [401, 'ACCESS_DENIED'])
  t.is(
    (await agree({ ...victim, session: victim.key }, cookie, offerIn(page))).body.code,
    'ACCESS_DENIED',
    'no API key',
  )
  // The attacker has the own session, and neither the page nor another browser's cookie.
  const own = await setOut(mallory)
  for (const [offer, browser] of [
    [offerIn(page), own.cookie],
    [offerIn(page), ''],
    [offerIn(page), `${own.cookie}; ${cookie}`],
    [state, cookie],
    [own.state, own.cookie],
  ] as const)
    t.deepEqual((await agree(mallory, browser, offer)).body.code, 'INVALID_GRANT')
  t.deepEqual([await bound(mallory), await bound(victim)], [[], []])
})

test.serial('a browser that sends the cookie twice is refused, because one was injected', async t => {
  const [ana, mallory] = [await api().makeUser(), await api().makeUser()]
  const [hers, his] = [await setOut(ana), await setOut(mallory)]
  for (const cookie of [
    `${his.cookie}; ${hers.cookie}`,
    `${hers.cookie}; ${his.cookie}`,
    `${hers.cookie}; ${hers.cookie}`,
  ])
    for (const state of [hers.state, his.state]) t.is((await comeBack({ state, cookie }, { code: 'any' })).status, 400)
})

test.serial('with https no other host can have set the cookie, on the way there, back, and with the click', async t => {
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    for (const step of undo.reverse()) await step()
  })
  // As it is reached by https; its certificate is the business of what stands before it.
  const { settings, pem } = provider
  const { urls } = parseConfig({ BASE_URL: 'https://api.example.com' }, '/')
  const services = () => ({ gitProvider: githubProvider(settings, pem) })
  const secure = await openApiFor(await database, { config: { gitProvider: settings, urls }, services }, undo)
  const user = await secure.makeUser()
  const person = provider.person()
  const installation = provider.install(person.login, [], person)
  const started = await secure.as(user.session).post('/git/connect', '{"installed":true}')
  const set = started.headers.get('set-cookie') ?? ''
  t.regex(set, /^__Host-berth_git_connect=[\w-]+; Path=\/; Secure; /)
  const own = set.split(';')[0]!
  const slipped = own.replace('__Host-', '')
  const state = new URL(started.body.response.url).searchParams.get('state')!
  const back = (cookie: string) => {
    const query = new URLSearchParams({ state, code: provider.code(person) })
    return secure.as(undefined).get(`/git/connect/callback?${query}`, { cookie })
  }
  t.is((await back(slipped)).status, 400)
  const page = await back(`berth_git_connect=other; ${own}`)
  t.is(page.status, 200)
  const click = (cookie: string) =>
    secure.as(user.session).post('/git/connect/callback', JSON.stringify({ offer: offerIn(page) }), { cookie })
  t.is((await click(slipped)).body.code, 'INVALID_GRANT')
  const agreed = await click(own)
  t.is(agreed.status, 200)
  t.regex(agreed.headers.get('set-cookie') ?? '', /^__Host-berth_git_connect=; Path=\/; Secure; Max-Age=0/)
  t.deepEqual(
    (await listInstallations(secure.db, user.id)).map(({ id }) => id),
    [installation.id],
  )
})
