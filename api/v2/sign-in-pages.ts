import { endpoint } from '../endpoint.ts'
import { page } from '../pages.ts'

/** Where the pages of one tab keep the session token. */
const sessionName = 'berth_session'

/** Signing in for people: the address, then the code of the mail. The session stays in this tab of the browser. */
export const signInPage = endpoint({
  name: 'sign-in.page',
  method: 'GET',
  path: '/signin',
  summary: 'Sign in with a code by mail',
  auth: 'public',
  envelope: false,
  async handle() {
    return signIn
  },
})

/** Where a program sends its person: they compare what is displayed, and grant or deny. */
export const authorizePage = endpoint({
  name: 'authorize.page',
  method: 'GET',
  path: '/authorize',
  summary: 'Decide on what a program asks for',
  auth: 'public',
  envelope: false,
  async handle() {
    return authorize
  },
})

/** Sends JSON; resolves to the answer's envelope, also when there is none. */
const ask = `const say=text=>{document.getElementById('said').textContent=text}
const ask=(method,path,body,token)=>fetch(path,{method,body:body&&JSON.stringify(body),headers:token?{authorization:token}:{}})
.then(answer=>answer.json()).catch(()=>({message:'The platform does not answer.'}))
`

const signIn = page({
  title: 'Sign in',
  text: ['No password is kept here: a code is sent to the address of your account.'],
  form: `<form id="address"><label>E-mail address<input type="email" autocomplete="email" required autofocus></label>
<button>Send me a code</button></form>
<form id="code" hidden><label>Code from the mail<input autocomplete="one-time-code" required minlength="8" maxlength="8"></label>
<button>Sign in</button></form><p id="said" role="alert"></p>`,
  script: `${ask}const forms={address:document.getElementById('address'),code:document.getElementById('code')}
let id
forms.address.onsubmit=async event=>{
event.preventDefault()
const {response,message}=await ask('POST','v2/account/sign-in',{email:forms.address.querySelector('input').value.trim()})
if(!response)return say(message)
id=response.id
forms.address.hidden=true
forms.code.hidden=false
forms.code.querySelector('input').focus()
say('If the address belongs to an account, a code is on its way. It is good for '+response.expires_in/60+' minutes.')
}
forms.code.onsubmit=async event=>{
event.preventDefault()
const {response,message}=await ask('POST','v2/account/sign-in/code',{id,code:forms.code.querySelector('input').value})
if(!response)return say(message)
sessionStorage.setItem('${sessionName}',response.token)
const next=new URLSearchParams(location.search).get('next')
if(next&&/^[a-z]+(\\?|$)/.test(next))return location.replace(next)
forms.code.hidden=true
say('You are signed in, in this tab, until '+new Date(response.expires_at).toLocaleTimeString()+'.')
}`,
})

const authorize = page({
  title: 'A program asks for access',
  text: ['Go on only if you have just started this program yourself, and if it shows the same signs.'],
  form: `<div id="asked" hidden><p>Program: <b id="client"></b><br>Signs: <b id="display"></b><br>Account: <b id="account"></b></p>
<p>It will be able to use:</p><ul id="scopes"></ul>
<form><button name="granted">Grant</button> <button name="denied">Deny</button></form></div><p id="said" role="alert"></p>`,
  script: `${ask}const code=new URLSearchParams(location.search).get('code')
const token=sessionStorage.getItem('${sessionName}')
const signIn=()=>location.replace('signin?next='+encodeURIComponent('authorize'+location.search))
const show=async()=>{
const {response,message,code:refusal}=await ask('GET','v2/account/authorize?code='+encodeURIComponent(code),undefined,token)
if(refusal==='ACCESS_DENIED')return signIn()
if(!response)return say(message)
document.getElementById('client').textContent=response.client_id
document.getElementById('display').textContent=response.display
document.getElementById('account').textContent=response.account
for(const scope of response.scopes)document.getElementById('scopes').append(Object.assign(document.createElement('li'),{textContent:scope}))
document.getElementById('asked').hidden=false
}
document.querySelector('form').onsubmit=async event=>{
event.preventDefault()
const granted=event.submitter.name==='granted'
const {response,message}=await ask('POST','v2/account/authorize',{code,granted},token)
document.getElementById('asked').hidden=true
if(!response)return say(message)
say(granted?'Granted. You can go back to the program.':'Denied.')
location.assign(response.redirect)
}
if(token)show()
else signIn()`,
})
