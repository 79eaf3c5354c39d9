import type { CaptchaWidget } from '../../../policy/accounts/captcha.ts'
import { inDoubtMessage } from '../../../policy/errors.ts'
import type { MailLocale } from '../../../policy/mail/template.ts'
import { refusalText } from '../../../policy/pages/refusals.ts'
import { inScript } from './pages.ts'

interface ScriptedPage {
  language: MailLocale
  widget: CaptchaWidget | undefined
  /** The texts of this page by name; `text` in its script. */
  text: Record<string, string>
  /** This page's own texts for codes or messages of the API; a message takes precedence over its code. */
  refusals: Partial<Record<string, string>>
  script: string
}

/** The name under which the pages of a tab store the session token. */
const sessionName = 'berth_session'

/** Markup that pages with a captcha need: the widget's container, and the line that reports results. */
export const captchaPlace = '<div id="captcha" class="captcha" hidden></div>'
export const statusLine = '<p id="said" role="alert"></p>'

/** The script of a page that calls this platform: sends JSON, reports in the visitor's language, and shows the captcha. */
export function pageScript({ language, widget, text, refusals, script }: ScriptedPage): string {
  const { away, calm, captcha, captchaAway, unknown } = refusalText[language]
  const texts = {
    KEEP_CALM: calm,
    RATE_LIMIT: calm,
    DATABASE_UNAVAILABLE: away,
    [inDoubtMessage]: unknown,
    CAPTCHA_REQUIRED: captcha,
    FAILED_TO_FETCH: captchaAway,
    VALIDATION_FAILED: captchaAway,
    VALIDATION_TIMEOUT: captchaAway,
    ...refusals,
  }
  const shown = widget && { key: widget.siteKey, url: widget.scriptUrl, name: widget.widget }
  return `const text=${inScript({ ...text, away, captchaAway })},refusals=${inScript(texts)},widget=${inScript(shown)}
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
