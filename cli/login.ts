import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Scope } from '../policy/accounts/scopes.ts'
import { post, Refused } from './client/client.ts'
import { keepLogin, type Login, loginFor } from './client/logins.ts'
import { withInstallation } from './installation/database.ts'
import { sayOnStderr } from './terminal/terminal.ts'

/** What the commands of this program need. */
const scopes: readonly Scope[] = ['account:read', 'apps:read', 'apps:write', 'apps:deploy', 'apps:control']

interface Begun {
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
    .description('ask in a browser for a key of 90 days, which deploy --url then uses')
    .option('--url <url>', 'API of the platform; the one on this machine when left out')
    .option('--json', 'as one JSON object')
    .action(async ({ url, json }: LoginOptions) => {
      const baseUrl = url ?? (await withInstallation(async ({ config }) => config.urls.base))
      const login = await askInBrowser(baseUrl)
      keepLogin(baseUrl, login)
      console.log(
        json
          ? JSON.stringify({ url: baseUrl, email: login.email, expires_at: login.expiresAt })
          : `Signed in to ${baseUrl} as ${login.email} until ${login.expiresAt.slice(0, 10)}.`,
      )
    })
  program
    .command('logout')
    .description('forget the key that login was granted')
    .option('--url <url>', 'API of the platform; the one on this machine when left out')
    .action(async ({ url }: LoginOptions) => {
      const baseUrl = url ?? (await withInstallation(async ({ config }) => config.urls.base))
      if (!loginFor(baseUrl)) throw new Error(`There is no login for ${baseUrl}.`)
      keepLogin(baseUrl, null)
      console.log(`The key for ${baseUrl} is forgotten here. It ends for good with: berth keys revoke`)
    })
}

/** Browser sign-in with a secret that only this process knows (RFC 7636, RFC 8252). */
async function askInBrowser(baseUrl: string): Promise<Login> {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const back = await listen()
  try {
    const redirect_uri = `http://127.0.0.1:${(back.server.address() as AddressInfo).port}/`
    const client_id = `berth on ${hostname()}`.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 64)
    const asked = { client_id, redirect_uri, scopes, challenge, challenge_method: 'S256' }
    const begun = (await post(baseUrl, '/v2/account/authorize/start', asked)) as Begun
    sayOnStderr(`Open this page in a browser, and compare the signs ${begun.display}:`)
    sayOnStderr(`  ${baseUrl}/authorize?code=${begun.code}`)
    const claim = () =>
      post(baseUrl, '/v2/account/authorize/claim', { code: begun.code, verifier, redirect_uri }) as Promise<Granted>
    return await granted(claim, back.returned, begun)
  } finally {
    back.server.close()
    back.server.closeAllConnections()
  }
}

/** Asks when the browser has come back, and every interval: it may run on another machine. */
async function granted(
  claim: () => Promise<Granted>,
  returned: Promise<'granted' | 'denied'>,
  { expires_in, interval }: Begun,
): Promise<Login> {
  const deadline = Date.now() + expires_in * 1000
  let decided: 'granted' | 'denied' | undefined
  void returned.then(how => {
    decided = how
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
  throw new Error('Nobody decided within 10 minutes. Run berth login again.')
}

async function listen(): Promise<{ server: Server; returned: Promise<'granted' | 'denied'> }> {
  let come: (how: 'granted' | 'denied') => void = () => {}
  const returned = new Promise<'granted' | 'denied'>(resolve => {
    come = resolve
  })
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    const how = searchParams.has('code') ? 'granted' : searchParams.has('error') ? 'denied' : undefined
    response.writeHead(how ? 200 : 404, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' })
    response.end(how ? `${how === 'granted' ? 'Granted' : 'Denied'}. You can close this page.\n` : 'Not found\n')
    if (how) come(how)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  return { server, returned }
}
