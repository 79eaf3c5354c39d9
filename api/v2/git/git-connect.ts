import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { localeAccepted } from '../../../policy/accounts/locales.ts'
import { CodedError } from '../../../policy/errors.ts'
import { connectionSeconds, signConnection } from '../../../policy/git/git-connection.ts'
import { gitBeginText } from '../../../policy/pages/git-begin.ts'
import type { Exchange } from '../../http/exchange.ts'
import { pageScript, statusLine } from '../../http/pages/page-script.ts'
import { escaped, page } from '../../http/pages/pages.ts'
import type { Reply } from '../../http/respond.ts'
import { checkScope } from '../../pipeline/access.ts'
import { checkCaptcha } from '../../pipeline/captcha.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { connectCookie } from './git-connect-cookie.ts'

/** Contract 6.15. A client with a session is redirected to the git provider; a visitor gets a page that asks for the session first. */
export const getGitConnection = endpoint({
  name: 'git.connect',
  method: 'GET',
  path: '/git/connect',
  summary: 'Connect an account to the git provider',
  auth: 'public',
  envelope: false,
  errors: ['ACCESS_DENIED', 'CAPTCHA_REQUIRED'],
  async handle({ exchange }, services) {
    if (!services.gitProvider) return notSetUp(exchange)
    if (exchange.request.headers.authorization === undefined) return askSession(exchange)
    const caller = await services.authenticate(exchange.request, exchange.address)
    checkScope(caller, 'session')
    await checkCaptcha(services, caller, exchange.address)
    const { url, cookie } = await begin(services, caller.user.id, 'install')
    return { status: 302, headers: { Location: url, 'Set-Cookie': cookie, 'Cache-Control': 'no-store' } }
  },
})

/** The same for the page: its script may set the header that proves the session, a page of another site may not. */
export const beginGitConnection = endpoint({
  name: 'git.connect.begin',
  method: 'POST',
  path: '/git/connect',
  summary: 'Start to connect an account to the git provider',
  auth: 'session',
  body: z.object({ installed: z.boolean().default(false) }),
  response: z.object({ url: z.string() }),
  errors: ['GITHUB_NOT_CONNECTED'],
  async handle({ caller, body, exchange }, services) {
    const { url, cookie } = await begin(services, caller.user.id, body.installed ? 'sign in' : 'install')
    exchange.headers['Set-Cookie'] = cookie
    exchange.headers['Cache-Control'] = 'no-store'
    return { url }
  },
})

/** The address to which the provider sends users back; registered there as callback and setup address. */
export const returnUrl = ({ config }: Services): string => `${config.urls.base}/git/connect/callback`

async function begin(
  services: Services,
  userId: string,
  by: 'install' | 'sign in',
): Promise<{ url: string; cookie: string }> {
  const { gitProvider, config } = services
  if (!gitProvider) throw new CodedError('GITHUB_NOT_CONNECTED', 'No git provider is set up on this platform.')
  const browser = randomBytes(24).toString('base64url')
  const state = await signConnection(config.masterKey, { userId, browser })
  const url = by === 'install' ? gitProvider.installPage(state) : gitProvider.signInPage(state, returnUrl(services))
  return { url, cookie: connectCookie(config.urls.base, browser, connectionSeconds) }
}

/** The page shown when the operator has set up no provider. */
export function notSetUp({ request }: Exchange): Reply {
  const language = localeAccepted(request.headers['accept-language'])
  const { noneTitle, none } = gitBeginText[language]
  return page({
    status: 403,
    language,
    title: noneTitle,
    text: [none, 'GITHUB_NOT_CONNECTED'],
    headers: { Vary: 'Accept-Language' },
  })
}

function askSession({ request }: Exchange): Reply {
  const language = localeAccepted(request.headers['accept-language'])
  const { title, intro, kept, session, choose, chosen, wrong } = gitBeginText[language]
  return page({
    language,
    title,
    text: [intro, kept],
    form: `<form id="begin"><label>${escaped(session)}<input id="session" type="password" autocomplete="off" required></label>
<div class="row"><button name="install">${escaped(choose)}</button><button name="installed" class="second">${escaped(chosen)}</button></div></form>${statusLine}`,
    script: pageScript({ language, widget: undefined, text: {}, refusals: { ACCESS_DENIED: wrong }, script }),
    headers: { Vary: 'Accept-Language' },
  })
}

// The page to which the provider sends users back needs the session again; this tab has stored it by then.
const script = `const field=at('session')
field.value=sessionStorage.getItem(session)??''
at('begin').onsubmit=async event=>{
event.preventDefault()
const token=field.value.trim()
const answer=await ask('POST',location.pathname,{installed:event.submitter.name==='installed'},token)
if(!answer.response)return failed(answer)
sessionStorage.setItem(session,token)
location.assign(answer.response.url)
}`
