import test from 'ava'
import { createUser } from '../../../../db/accounts/accounts.ts'
import { mailedCode } from '../../../../policy/accounts/mailed-codes.ts'
import { mailLocaleOf } from '../../../../policy/mail/template.ts'
import { masterKey, testApi } from '../../../kit/actors/api.ts'

const api = testApi({ config: { trustedProxies: ['127.0.0.1'] } })

const post = (path: string, body: object, who?: string) => api().as(who).post(path, JSON.stringify(body))
const emailOf = async (id: string) => (await api().db('users').where({ id }).first()).email
const begin = async (email: string) => (await post('/v2/account/sign-in', { email })).body.response.id as string
const end = (id: string, code: string) => post('/v2/account/sign-in/code', { id, code })
const rightCode = (id: string) => mailedCode(masterKey, 'sign-in', id)

test('the mailed code gives a session, once', async t => {
  const ana = await api().makeUser()
  const id = await begin((await emailOf(ana.id)).toUpperCase())
  t.like(await api().db('mails').where({ user_id: ana.id }).first(), { template: 'sign-in', fields: { signIn: id } })
  const { status, body } = await end(id, ` ${rightCode(id).toLowerCase()} `)
  t.is(status, 200)
  t.is((await api().as(body.response.token).get('/v2/users/me')).body.response.user.id, ana.id)
  t.is((await api().as(body.response.token).get('/v2/account/apikey')).status, 200)
  t.is((await end(id, rightCode(id))).body.code, 'INVALID_GRANT', 'once')
  const { response } = (await api().as(ana.session).get('/v2/account/audit')).body
  t.like(response.entries, { length: 2, 1: { actor: ana.id, action: 'account.sign-in.end', resource: null } })
})

test('twenty concurrent requests with the right code are one session', async t => {
  const ana = await api().makeUser()
  const id = await begin(await emailOf(ana.id))
  // Five tries are all that a sign-in takes.
  const answers = await Promise.all(Array.from({ length: 20 }, () => end(id, rightCode(id))))
  t.is(answers.filter(answer => answer.status === 200).length, 1)
})

test('an address without account is answered alike, and gets no mail', async t => {
  const { status, body } = await post('/v2/account/sign-in', { email: 'nobody@example.org' })
  t.is(status, 200)
  t.deepEqual(Object.keys(body.response), ['id', 'expires_in'])
  t.is((await end(body.response.id, rightCode(body.response.id))).body.code, 'INVALID_GRANT')
  t.is(await api().db('mails').whereRaw(`fields->>'signIn' = ?`, [body.response.id]).first(), undefined)
})

test('five wrong codes end a sign-in; an old code is refused', async t => {
  const ana = await api().makeUser()
  const id = await begin(await emailOf(ana.id))
  for (let n = 0; n < 5; n++) t.is((await end(id, 'AAAAAAAA')).body.code, 'INVALID_GRANT')
  t.is((await end(id, rightCode(id))).body.code, 'INVALID_GRANT')
  const old = await begin(await emailOf(ana.id))
  await api()
    .db('sign_ins')
    .where({ id: old })
    .update({ expires_at: new Date(0) })
  t.is((await end(old, rightCode(old))).body.code, 'INVALID_GRANT')
})

test('a network can send an address five mails within ten minutes', async t => {
  const ana = await api().makeUser()
  const email = await emailOf(ana.id)
  for (let n = 0; n < 7; n++) await begin(email)
  t.is((await api().db('mails').where({ user_id: ana.id })).length, 5)
})

test('a network cannot send an address more mails by concurrent requests', async t => {
  const ana = await api().makeUser()
  const email = await emailOf(ana.id)
  await Promise.all(Array.from({ length: 12 }, () => begin(email)))
  t.is((await api().db('mails').where({ user_id: ana.id })).length, 5)
})

test('another network that requests all mails does not keep the owner from signing in', async t => {
  const ana = await api().makeUser()
  const email = await emailOf(ana.id)
  const from = async (address: string) => {
    const answer = await api()
      .as(undefined)
      .post('/v2/account/sign-in', JSON.stringify({ email }), { 'x-forwarded-for': address })
    return answer.body.response.id as string
  }
  for (let n = 0; n < 8; n++) await from(`2001:db8:7::${n}`)
  const sent = () => api().db('mails').where({ user_id: ana.id }).orderBy('created_at', 'desc')
  t.is((await sent()).length, 5, 'one network is one asker')
  const own = await from('192.0.2.7')
  t.is((await sent()).length, 6)
  const { status, body } = await end(own, rightCode((await sent())[0].fields.signIn))
  t.is(status, 200)
  t.is((await api().as(body.response.token).get('/v2/users/me')).body.response.user.id, ana.id)
})

test('an invalid address or code is refused with its own code', async t => {
  for (const email of ['', 'x', 7, null, 'a@b', `a\u0000@example.org`, `${'a'.repeat(250)}@example.org`])
    t.is((await post('/v2/account/sign-in', { email } as object)).status, 400, String(email))
  t.is((await end('nonsense', 'x')).body.code, 'INVALID_GRANT')
  t.is((await post('/v2/account/sign-in/code', {})).body.code, 'INVALID_REQUEST')
})

test('a session is renewed for another hour, and ends with signing out', async t => {
  const ana = await api().makeUser()
  const renewed = await api().as(ana.session).post('/v2/account/session')
  t.true(Date.parse(renewed.body.response.expires_at) > Date.now() + 3_590_000)
  const { token } = renewed.body.response
  t.is((await api().as(token).get('/v2/users/me')).status, 200)
  t.is((await api().as(token).delete('/v2/account/session')).status, 200)
  t.is((await api().as(token).post('/v2/account/session')).status, 401)
})

test('a session that began 30 days ago is not renewed', async t => {
  const ana = await api().makeUser()
  await api()
    .db('sessions')
    .where({ id: ana.sessionId })
    .update({ created_at: new Date(Date.now() - 31 * 86_400_000) })
  t.is((await api().as(ana.session).post('/v2/account/session')).status, 401)
})

test('the first sign-in sets the language of the account and its mail; a chosen one stays', async t => {
  const signIn = async (id: string, languages: string) => {
    const started = await begin(await emailOf(id))
    const body = JSON.stringify({ id: started, code: rightCode(started) })
    const answer = await api().as(undefined).post('/v2/account/sign-in/code', body, { 'accept-language': languages })
    return (await api().as(answer.body.response.token).get('/v2/users/me')).body.response.user.locale
  }
  const ana = await api().makeUser()
  t.is(await signIn(ana.id, 'xx, fr-CA;q=0.9, en;q=0.2'), 'fr-FR')
  t.is(await signIn(ana.id, 'de-DE'), 'fr-FR', 'the first one')
  const { rows } = await api().db.raw('select locale from users where id = ?', [ana.id])
  t.is(mailLocaleOf(rows[0].locale), 'fr-FR')

  const ben = await createUser(api().db, { name: 'Ben', email: 'ben@example.org', plan: 'free', locale: 'it-IT' })
  t.is(await signIn(ben.id, 'de-DE'), 'it-IT')
  const refused = await api().as(ana.session).request('PATCH', '/v2/account/locale', { body: '{"locale":"ja-JP"}' })
  t.is(refused.body.code, 'INVALID_LOCALE')
})
