import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Scope } from '../policy/accounts/scopes.ts'
import { post, Refused } from './client/client.ts'
import { type Login, loginFor, saveLogin } from './client/logins.ts'
import { withInstallation } from './installation/database.ts'
import { sayOnStderr } from './terminal/terminal.ts'

/** The scopes that the commands of this program need. */
const scopes: readonly Scope[] = ['account:read', 'apps:read', 'apps:write', 'apps:deploy', 'apps:control']

interface Authorization {
  code: string
  display: string
  expires_in: number
  interval: number
}

interface Granted {
  api_key: string
  account: { email: string }
  expires_at: string
}

interface LoginOptions {
  url?: string
  json?: boolean
}

export function loginCommand(program: Command): void {
  program
    .command('login')
    .option('--url <url>', 'API of the platform; default: the one on this machine')
    .option('--json', 'as one JSON object')
    .action(async ({ url, json }: LoginOptions) => {
      const baseUrl = url ?? (await withInstallation(async ({ config }) => config.urls.base))
      const login = await signInWithBrowser(baseUrl)
      saveLogin(baseUrl, login)
      console.log(
        json
          ? JSON.stringify({ url: baseUrl, email: login.email, expires_at: login.expiresAt })
          : `Signed in to ${baseUrl} as ${login.email} until ${login.expiresAt.slice(0, 10)}.`,
      )
    })
}

export function logoutCommand(program: Command): void {
  program
    .command('logout')
    .option('--url <url>', 'API of the platform; default: the one on this machine')
    .action(async ({ url }: LoginOptions) => {
      const baseUrl = url ?? (await withInstallation(async ({ config }) => config.urls.base))
      if (!loginFor(baseUrl)) throw new Error(`There is no login for ${baseUrl}.`)
      saveLogin(baseUrl, null)
      console.log(`The key for ${baseUrl} was removed from this machine. To revoke it: berth keys revoke`)
    })
}

/** Browser sign-in with a secret that only this process knows (RFC 7636, RFC 8252). */
async function signInWithBrowser(baseUrl: string): Promise<Login> {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const callback = await listen()
  try {
    const redirect_uri = `http://127.0.0.1:${(callback.server.address() as AddressInfo).port}/`
    const client_id = `berth on ${hostname()}`.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 64)
    const input = { client_id, redirect_uri, scopes, challenge, challenge_method: 'S256' }
    const authorization = (await post(baseUrl, '/v2/account/authorize/start', input)) as Authorization
    sayOnStderr(`Open this page in a browser and check that it shows ${authorization.display}:`)
    sayOnStderr(`  ${baseUrl}/authorize?code=${authorization.code}`)
    const claim = () =>
      post(baseUrl, '/v2/account/authorize/claim', {
        code: authorization.code,
        verifier,
        redirect_uri,
      }) as Promise<Granted>
    return await grantedLogin(claim, callback.returned, authorization)
  } finally {
    callback.server.close()
    callback.server.closeAllConnections()
  }
}

/** Claims the key when the browser returns, and at every interval: the browser may run on another machine. */
async function grantedLogin(
  claim: () => Promise<Granted>,
  returned: Promise<'granted' | 'denied'>,
  { expires_in, interval }: Authorization,
): Promise<Login> {
  const deadline = Date.now() + expires_in * 1000
  let decided: 'granted' | 'denied' | undefined
  void returned.then(decision => {
    decided = decision
  })
  while (Date.now() < deadline) {
    await Promise.race([returned, sleep(interval * 1000, undefined, { ref: true })])
    if (decided === 'denied') throw new Error('The request was denied in the browser.')
    try {
      const { api_key, account, expires_at } = await claim()
      return { apiKey: api_key, email: account.email, expiresAt: expires_at }
    } catch (error) {
      if (!(error instanceof Refused && error.code === 'AUTHORIZATION_PENDING')) throw error
    }
  }
  throw new Error('The request was not decided within 10 minutes. Run berth login again.')
}

async function listen(): Promise<{ server: Server; returned: Promise<'granted' | 'denied'> }> {
  let onReturn: (decision: 'granted' | 'denied') => void = () => {}
  const returned = new Promise<'granted' | 'denied'>(resolve => {
    onReturn = resolve
  })
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    const decision = searchParams.has('code') ? 'granted' : searchParams.has('error') ? 'denied' : undefined
    response.writeHead(decision ? 200 : 404, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' })
    response.end(
      decision ? `${decision === 'granted' ? 'Granted' : 'Denied'}. You can close this page.\n` : 'Not found\n',
    )
    if (decision) onReturn(decision)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  return { server, returned }
}
