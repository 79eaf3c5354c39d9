import { localeAccepted } from '../../../policy/accounts/locales.ts'
import { authorizeText } from '../../../policy/pages/authorize.ts'
import { captchaPlace, pageScript, statusLine } from '../../http/pages/page-script.ts'
import { escaped, page } from '../../http/pages/pages.ts'
import { widgetFor } from '../../pipeline/captcha.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** Where a program sends its user, who compares the displayed code and grants or denies the request. */
export const showAuthorizePage = endpoint({
  name: 'authorize.page',
  method: 'GET',
  path: '/authorize',
  summary: 'Grant or deny a program access to the account',
  auth: 'public',
  envelope: false,
  async handle({ exchange }, services) {
    const language = localeAccepted(exchange.request.headers['accept-language'])
    const widget = widgetFor(services, exchange)
    const { title, intro, program, signs, account, uses, grant, deny, over, ...text } = authorizeText[language]
    return page({
      language,
      widget,
      title,
      text: [intro],
      form: `<div id="asked" hidden><dl><dt>${escaped(program)}</dt><dd id="client"></dd>
<dt>${escaped(signs)}</dt><dd id="display" class="signs"></dd><dt>${escaped(account)}</dt><dd id="account"></dd></dl>
<p>${escaped(uses)}</p><ul id="scopes"></ul>
<form class="row"><button name="granted">${escaped(grant)}</button><button name="denied" class="second">${escaped(deny)}</button></form></div>
${captchaPlace}${statusLine}`,
      script: pageScript({
        language,
        widget,
        text,
        refusals: { INVALID_GRANT: over, INVALID_PARAMETERS: over, INVALID_REQUEST: over },
        script,
      }),
      headers: { Vary: 'Accept-Language' },
    })
  },
})

const script = `const code=new URLSearchParams(location.search).get('code')??''
const token=sessionStorage.getItem(session)
const signIn=()=>location.replace('signin?next='+encodeURIComponent('authorize'+location.search))
const refused=answer=>{
at('asked').hidden=true
if(answer.code==='ACCESS_DENIED')return signIn()
if(answer.code==='CAPTCHA_REQUIRED')showCaptcha(solved)
failed(answer)
}
const solved=async answer=>{
if(!answer)return
const taken=await ask('POST','v2/account/captcha',{answer},token)
if(taken.status!=='success')return refused(taken)
at('captcha').hidden=true
say('')
show()
}
const show=async()=>{
const answer=await ask('GET','v2/account/authorize?code='+encodeURIComponent(code),undefined,token)
if(!answer.response)return refused(answer)
const {client_id,display,account,scopes}=answer.response
at('client').textContent=client_id
at('display').textContent=display
at('account').textContent=account
at('scopes').replaceChildren(...scopes.map(scope=>Object.assign(document.createElement('li'),{textContent:scope})))
at('asked').hidden=false
}
document.querySelector('form').onsubmit=async event=>{
event.preventDefault()
const granted=event.submitter.name==='granted'
const answer=await ask('POST','v2/account/authorize',{code,granted},token)
if(!answer.response)return refused(answer)
at('asked').hidden=true
say(granted?text.granted:text.denied)
location.assign(answer.response.redirect)
}
if(token)show()
else signIn()`
