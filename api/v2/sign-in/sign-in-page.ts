import { localeAccepted } from '../../../policy/accounts/locales.ts'
import { signInText } from '../../../policy/pages/sign-in.ts'
import { captchaPlace, pageScript, statusLine } from '../../http/pages/page-script.ts'
import { escaped, page } from '../../http/pages/pages.ts'
import { widgetFor } from '../../pipeline/captcha.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** The page for signing in: the address, then the mailed code. The session stays in this tab of the browser. */
export const showSignInPage = endpoint({
  name: 'sign-in.page',
  method: 'GET',
  path: '/signin',
  summary: 'Sign in with a mailed code',
  auth: 'public',
  envelope: false,
  async handle({ exchange }, services) {
    const language = localeAccepted(exchange.request.headers['accept-language'])
    const widget = widgetFor(services, exchange)
    const { title, intro, email, send, code, enter, again, wrongAddress, wrongCode, ...text } = signInText[language]
    return page({
      language,
      widget,
      title,
      text: [intro],
      form: `<form id="address"><label>${escaped(email)}<input type="email" autocomplete="email" required autofocus></label>
${captchaPlace}<button>${escaped(send)}</button></form>
<form id="code" hidden><label>${escaped(code)}<input class="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false" required minlength="8" maxlength="8"></label>
<div class="row"><button>${escaped(enter)}</button><button type="button" class="second" id="again">${escaped(again)}</button></div></form>${statusLine}`,
      script: pageScript({
        language,
        widget,
        text,
        refusals: { INVALID_REQUEST: wrongAddress, INVALID_GRANT: wrongCode },
        script,
      }),
      headers: { Vary: 'Accept-Language' },
    })
  },
})

const script = `const forms={address:at('address'),code:at('code')}
let id,captcha
const turnTo=name=>{
for(const key in forms)forms[key].hidden=key!==name
if(!forms[name])return
forms[name].querySelector('input').value=name==='code'?'':forms[name].querySelector('input').value
forms[name].querySelector('input').focus()
if(name==='address'){captcha=undefined;showCaptcha(answer=>{captcha=answer})}
}
forms.address.onsubmit=async event=>{
event.preventDefault()
if(widget&&!captcha)return regret(refusals.CAPTCHA_REQUIRED)
const email=forms.address.querySelector('input').value.trim()
const answer=await ask('POST','v2/account/sign-in',{email,captcha})
if(!answer.response){turnTo('address');return failed(answer)}
id=answer.response.id
turnTo('code')
say(filled(text.sent,{minutes:answer.response.expires_in/60}))
}
forms.code.onsubmit=async event=>{
event.preventDefault()
const answer=await ask('POST','v2/account/sign-in/code',{id,code:forms.code.querySelector('input').value})
if(!answer.response)return failed(answer)
sessionStorage.setItem(session,answer.response.token)
const next=new URLSearchParams(location.search).get('next')
if(next&&/^[a-z]+(\\?|$)/.test(next))return location.replace(next)
turnTo()
const time=new Date(answer.response.expires_at).toLocaleTimeString(document.documentElement.lang,{timeStyle:'short'})
say(filled(text.entered,{time}))
}
at('again').onclick=()=>{say('');turnTo('address')}
turnTo('address')`
