import type { CaptchaWidget } from '../../../policy/accounts/captcha.ts'
import { inDoubt } from '../../../policy/errors.ts'
import type { MailLocale } from '../../../policy/mail/template.ts'
import { refusalText } from '../../../policy/pages/refusals.ts'
import { inScript } from './pages.ts'

interface ScriptedPage {
  language: MailLocale
  widget: CaptchaWidget | undefined
  /** What this page says, by name; `text` in its script. */
  text: Record<string, string>
  /** What it says about codes that mean something of its own here. A sentence of the API counts before its code. */
  refusals: Partial<Record<string, string>>
  script: string
}

/** Where the pages of one tab keep the session token. */
export const sessionName = 'berth_session'

/** Markup that pages with a captcha need: the widget's place, and the line that says how things went. */
export const captchaPlace = '<div id="captcha" class="captcha" hidden></div>'
export const saidPlace = '<p id="said" role="alert"></p>'

/** The script of a page that talks to this platform: asks with JSON, speaks the visitor's language, and shows the captcha. */
export function pageScript({ language, widget, text, refusals, script }: ScriptedPage): string {
  const { away, calm, captcha, captchaAway, unknown } = refusalText[language]
  const known = {
    KEEP_CALM: calm,
    RATE_LIMIT: calm,
    DATABASE_UNAVAILABLE: away,
    [inDoubt]: unknown,
    CAPTCHA_REQUIRED: captcha,
    FAILED_TO_FETCH: captchaAway,
    VALIDATION_FAILED: captchaAway,
    VALIDATION_TIMEOUT: captchaAway,
    ...refusals,
  }
  const shown = widget && { key: widget.siteKey, url: widget.scriptUrl, name: widget.widget }
  return `const text=${inScript({ ...text, away, captchaAway })},refusals=${inScript(known)},widget=${inScript(shown)}
const session=${inScript(sessionName)}\n${shared}${script}`
}

const shared = `const at=id=>document.getElementById(id)
const say=words=>{Object.assign(at('said'),{textContent:words,className:''})}
const regret=words=>{Object.assign(at('said'),{textContent:words,className:'wrong'})}
const filled=(words,values)=>words.replace(/\\{(\\w+)\\}/g,(_,name)=>values[name])
const ask=async(method,path,body,token)=>{
const buttons=[...document.querySelectorAll('button:enabled')]
for(const button of buttons)button.disabled=true
try{
const answer=await fetch(path,{method,body:body&&JSON.stringify(body),headers:token?{authorization:token}:{}})
return await answer.json()
}catch{return {message:text.away}}
finally{for(const button of buttons)button.disabled=false}
}
const failed=({code,message})=>regret(refusals[message]??refusals[code]??message)
let captchaId
const showCaptcha=solved=>{
if(!widget)return
at('captcha').hidden=false
if(captchaId!==undefined)return window[widget.name].reset(captchaId)
window.berthCaptcha=()=>{captchaId=window[widget.name].render(at('captcha'),{sitekey:widget.key,callback:solved,
'expired-callback':()=>solved(),'error-callback':()=>regret(text.captchaAway)})}
const url=new URL(widget.url)
url.searchParams.set('onload','berthCaptcha')
url.searchParams.set('render','explicit')
document.head.append(Object.assign(document.createElement('script'),{src:url,onerror:()=>regret(text.captchaAway)}))
}
`
