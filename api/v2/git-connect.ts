import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { ApiError } from '../../policy/errors.ts'
import { connectionSeconds, signConnection } from '../../policy/git-connection.ts'
import { checkScope } from '../access.ts'
import { checkCaptcha } from '../captcha.ts'
import { endpoint } from '../endpoint.ts'
import { connectCookie } from '../git-connect-cookie.ts'
import { sessionName } from '../page-script.ts'
import { page } from '../pages.ts'
import type { Parts } from '../parts.ts'
import type { Reply } from '../respond.ts'

/** Contract 13. A client that holds a session is sent on to the git provider; a person is asked for theirs first. */
export const gitConnect = endpoint({
  name: 'git.connect',
  method: 'GET',
  path: '/git/connect',
  summary: 'Connect an account to the git provider',
  auth: 'public',
  envelope: false,
  errors: ['ACCESS_DENIED', 'CAPTCHA_REQUIRED'],
  async handle({ exchange }, parts) {
    if (!parts.gitProvider) return notSetUp
    if (exchange.request.headers.authorization === undefined) return askSession
    const caller = await parts.authenticate(exchange.request, exchange.address)
    checkScope(caller, 'session')
    await checkCaptcha(parts, caller, exchange.address)
    const { url, cookie } = await begin(parts, caller.user.id, 'install')
    return { status: 302, headers: { Location: url, 'Set-Cookie': cookie, 'Cache-Control': 'no-store' } }
  },
})

/** The same for the page: a script may set the header that proves the session, a page of another site may not. */
export const gitConnectBegin = endpoint({
  name: 'git.connect.begin',
  method: 'POST',
  path: '/git/connect',
  summary: 'Begin to connect an account to the git provider',
  auth: 'session',
  body: z.object({ installed: z.boolean().default(false) }),
  response: z.object({ url: z.string() }),
  errors: ['GITHUB_NOT_CONNECTED'],
  async handle({ caller, body, exchange }, parts) {
    const { url, cookie } = await begin(parts, caller.user.id, body.installed ? 'sign in' : 'install')
    exchange.headers['Set-Cookie'] = cookie
    exchange.headers['Cache-Control'] = 'no-store'
    return { url }
  },
})

/** Where the provider sends a person back to; registered there as callback and setup address. */
export const returnUrl = ({ config }: Parts): string => `${config.urls.base}/git/connect/callback`

async function begin(
  parts: Parts,
  userId: string,
  by: 'install' | 'sign in',
): Promise<{ url: string; cookie: string }> {
  const { gitProvider, config } = parts
  if (!gitProvider) throw new ApiError('GITHUB_NOT_CONNECTED', 'This platform has no git provider set up.')
  const browser = randomBytes(24).toString('base64url')
  const state = await signConnection(config.masterKey, { userId, browser })
  const url = by === 'install' ? gitProvider.installPage(state) : gitProvider.signInPage(state, returnUrl(parts))
  return { url, cookie: connectCookie(config.urls.base, browser, connectionSeconds) }
}

export const notSetUp: Reply = page({
  status: 403,
  title: 'No git provider',
  text: ['The operator of this platform has set up no git provider.', 'Code: GITHUB_NOT_CONNECTED'],
})

const askSession: Reply = page({
  title: 'Connect the git provider',
  text: [
    'Repositories that you choose at the git provider can then be linked to your applications: every push is deployed.',
    'Your session token stays in this browser and goes to this platform only.',
  ],
  form: `<form><input id="session" type="password" autocomplete="off" placeholder="Session token" required>
<button name="install">Choose repositories</button> <button name="installed">They are chosen already</button></form><p id="said" role="alert"></p>`,
  // The page that the provider sends people back to asks for the session once more, which this tab has kept by then.
  script: `document.getElementById('session').value=sessionStorage.getItem('${sessionName}')??''
document.querySelector('form').onsubmit=async event=>{
event.preventDefault()
const token=document.getElementById('session').value.trim()
const headers={authorization:token}
const body=JSON.stringify({installed:event.submitter.name==='installed'})
const answer=await fetch(location.pathname,{method:'POST',headers,body}).then(r=>r.json(),()=>({message:'The platform does not answer.'}))
if(answer.response){sessionStorage.setItem('${sessionName}',token);location.assign(answer.response.url)}
else document.getElementById('said').textContent=answer.message
}`,
})
