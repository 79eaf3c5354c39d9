import { z } from 'zod'
import { bindInstallations } from '../../../db/git/git-links.ts'
import { localeAccepted } from '../../../policy/accounts/locales.ts'
import { CodedError } from '../../../policy/errors.ts'
import { type Offer, readOffer, signOffer } from '../../../policy/git/git-connection.ts'
import { gitConnectText } from '../../../policy/pages/git-connect.ts'
import type { Exchange } from '../../http/exchange.ts'
import { pageScript, statusLine } from '../../http/pages/page-script.ts'
import { escaped, page } from '../../http/pages/pages.ts'
import type { Reply } from '../../http/respond.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { connectCookie, connectCookieIn } from './git-connect-cookie.ts'

/**
 * Shows which account would be connected with what, and binds nothing: a page of another site can send a visitor through the provider
 * with the connection of another account, but it can neither click here nor present that account's session.
 */
export async function offerPage(
  { request }: Exchange,
  { config }: Services,
  offer: Offer & { email: string },
): Promise<Reply> {
  const language = localeAccepted(request.headers['accept-language'])
  const { title, intro, account, login, owners, session, connect, connected, other, over } = gitConnectText[language]
  const { email, member, installations } = offer
  const rows = [
    [account, email],
    [login, member.login],
    [owners, installations.map(installation => installation.account).join(', ')],
  ] as const
  const listed = rows.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`)
  return page({
    language,
    title,
    text: [intro],
    form: `<form id="offer"><dl>${listed.join('\n')}</dl>
<label hidden>${escaped(session)}<input id="session" type="password" autocomplete="off"></label>
<button>${escaped(connect)}</button></form>${statusLine}`,
    script: pageScript({
      language,
      widget: undefined,
      text: { connected, offer: await signOffer(config.masterKey, offer) },
      refusals: { PERMISSION_DENIED: other, INVALID_GRANT: over },
      script,
    }),
    headers: { Vary: 'Accept-Language' },
  })
}

const script = `const form=at('offer'),field=at('session')
const askSession=()=>{field.parentElement.hidden=false;field.required=true}
form.onsubmit=async event=>{
event.preventDefault()
const token=field.value.trim()||sessionStorage.getItem(session)
const answer=await ask('POST',location.pathname,{offer:text.offer},token)
if(answer.status==='success'){form.hidden=true;return say(text.connected)}
if(answer.code==='ACCESS_DENIED')askSession()
failed(answer)
}
if(!sessionStorage.getItem(session))askSession()`

/** The click: binds what was offered to the account of the session, in the browser that started the connection. */
export const confirmGitConnection = endpoint({
  name: 'git.connect.confirm',
  method: 'POST',
  path: '/git/connect/callback',
  summary: 'Connect the installations that the git provider has confirmed',
  auth: 'session',
  body: z.object({ offer: z.string({ error: 'INVALID_GRANT' }) }),
  errors: ['INVALID_GRANT', 'PERMISSION_DENIED', 'GITHUB_NOT_CONNECTED'],
  async handle({ caller, body, exchange }, { config, db, gitProvider }) {
    if (!gitProvider) throw new CodedError('GITHUB_NOT_CONNECTED', 'No git provider is set up on this platform.')
    const browser = connectCookieIn(config.urls.base, exchange.request.headers.cookie)
    const offer = await readOffer(config.masterKey, body.offer, browser)
    if (!offer) throw new CodedError('INVALID_GRANT')
    if (offer.userId !== caller.user.id)
      throw new CodedError('PERMISSION_DENIED', 'The session belongs to another account.')
    await bindInstallations(db, offer.userId, offer.member, offer.installations)
    exchange.headers['Set-Cookie'] = connectCookie(config.urls.base, '', 0)
  },
})
