import test from 'ava'
import { connectCookie, connectCookieIn } from '../../../../api/v2/git/git-connect-cookie.ts'

const secure = 'https://api.example.com'
const plain = 'http://127.0.0.1:4000'

test('with https only the API’s own host can have set the cookie, and no other name is accepted', t => {
  const cookie = connectCookie(secure, 'own', 600)
  t.is(cookie, '__Host-berth_git_connect=own; Path=/; Secure; Max-Age=600; HttpOnly; SameSite=Lax')
  t.is(connectCookieIn(secure, 'a=1; __Host-berth_git_connect=own; b=2'), 'own')
  t.is(connectCookieIn(secure, 'berth_git_connect=slipped'), '')
  t.is(connectCookieIn(secure, 'berth_git_connect=slipped; __Host-berth_git_connect=own'), 'own')
})

test('on plain http the cookie is limited to its page', t => {
  const cookie = connectCookie(plain, 'own', 600)
  t.is(cookie, 'berth_git_connect=own; Path=/git/connect; Max-Age=600; HttpOnly; SameSite=Lax')
  t.is(connectCookieIn(plain, 'berth_git_connect=own'), 'own')
})

test('two cookies, an empty one and a malformed one count as none', t => {
  for (const header of [
    undefined,
    '',
    'berth_git_connect=',
    'berth_git_connect=a b',
    `berth_git_connect=${'a'.repeat(101)}`,
    'berth_git_connect=own; berth_git_connect=slipped',
    'berth_git_connect=slipped;berth_git_connect=own',
    'berth_git_connect=own; berth_git_connect=!',
    'xberth_git_connect=own',
  ])
    t.is(connectCookieIn(plain, header), '', header)
})
