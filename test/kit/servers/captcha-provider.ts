import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type CaptchaSettings, captchaSettings } from '../../../policy/accounts/captcha.ts'
import { startOrigin } from './origin.ts'

interface Solved {
  at: Date
  /** Only a visitor from here may hand it in; anybody when left out. */
  address?: string
  spent: boolean
}

/**
 * A captcha provider as its published protocol says: a script that renders a widget in a frame of its own, whose answers
 * `siteverify` knows, once, for a caller that has the secret. `takeOver` scripts errors and silence; true = it answered itself.
 */
export class CaptchaProviderServer {
  readonly asked: URLSearchParams[] = []
  takeOver: (request: IncomingMessage, response: ServerResponse) => boolean = () => false
  url = ''
  stop: () => Promise<void> = async () => {}
  readonly siteKey = `site-${randomBytes(8).toString('hex')}`
  readonly secretKey = `secret-${randomBytes(16).toString('hex')}`
  readonly #solved = new Map<string, Solved>()

  static async start(): Promise<CaptchaProviderServer> {
    const provider = new CaptchaProviderServer()
    const origin = await startOrigin((request, response) => void provider.#serve(request, response))
    provider.url = `http://127.0.0.1:${origin.port}`
    provider.stop = origin.stop
    return provider
  }

  /** As an operator sets it up; which one of the providers says only under which name the script is known. */
  settings(provider: 'turnstile' | 'hcaptcha' | 'recaptcha' = 'turnstile'): CaptchaSettings {
    return captchaSettings({
      CAPTCHA_COUNTRIES: 'BR',
      CAPTCHA_PROVIDER: provider,
      CAPTCHA_SITE_KEY: this.siteKey,
      CAPTCHA_SECRET_KEY: this.secretKey,
      CAPTCHA_SCRIPT_URL: `${this.url}/api.js`,
      CAPTCHA_VERIFY_URL: `${this.url}/siteverify`,
    }) as CaptchaSettings
  }

  /** The answer of a solved widget. */
  solve({ at = new Date(), address }: { at?: Date; address?: string } = {}): string {
    const answer = randomBytes(24).toString('base64url')
    this.#solved.set(answer, { at, address, spent: false })
    return answer
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.takeOver(request, response)) return
    const { pathname } = new URL(request.url ?? '/', this.url)
    const reply = (type: string, body: string) => response.writeHead(200, { 'content-type': type }).end(body)
    if (pathname === '/api.js') reply('text/javascript', script)
    else if (pathname === '/frame') reply('text/html', frame)
    else if (pathname === '/solve') reply('text/plain', this.solve())
    else if (pathname === '/siteverify') reply('application/json', JSON.stringify(await this.#verify(request)))
    else response.writeHead(404).end()
  }

  async #verify(request: IncomingMessage): Promise<object> {
    let text = ''
    for await (const chunk of request) text += chunk
    const fields = new URLSearchParams(text)
    this.asked.push(fields)
    const refused = (code: string) => ({ success: false, 'error-codes': [code] })
    if (request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') !== true)
      return refused('bad-request')
    if (fields.get('secret') !== this.secretKey) return refused('invalid-input-secret')
    const solved = this.#solved.get(fields.get('response') ?? '')
    if (!solved || (solved.address && solved.address !== fields.get('remoteip')))
      return refused('invalid-input-response')
    if (solved.spent) return refused('timeout-or-duplicate')
    solved.spent = true
    return { success: true, challenge_ts: solved.at.toISOString(), hostname: '127.0.0.1' }
  }
}

/** As the real ones do: reads its own address, loads a frame from there, and calls back with what that says. */
const script = `{const {origin,searchParams}=new URL(document.currentScript.src)
const widget={render(element,{sitekey,callback}){
const frame=document.createElement('iframe')
frame.src=origin+'/frame?k='+sitekey
frame.style.cssText='border:0;width:300px;height:65px'
element.append(frame)
addEventListener('message',event=>{
if(event.source!==frame.contentWindow)return
callback(event.data)
frame.contentWindow.postMessage('answered','*')})
return frame},
reset(frame){frame.src=frame.src}}
Object.assign(window,{turnstile:widget,hcaptcha:widget,grecaptcha:widget})
window[searchParams.get('onload')]()}`

const frame = `<!doctype html><body style="margin:0"><button style="font:16px sans-serif;width:300px;height:63px">I am a person</button><script>
onmessage=()=>{document.body.dataset.answered='yes'}
document.querySelector('button').onclick=async()=>parent.postMessage(await (await fetch('/solve',{method:'POST'})).text(),'*')</script>`
