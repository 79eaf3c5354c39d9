import { createPrivateKey, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import { z } from 'zod'
import { CodedError } from '../../policy/errors.ts'
import type { GitProviderSettings } from '../../policy/git/git-provider-settings.ts'
import { type ProviderAnswer, providerClient, type SendRequest } from './client.ts'
import type { GitProvider, Installation } from './port.ts'

/** Clocks may differ by a minute, and the provider accepts at most 10. */
const appTokenSeconds = { before: 60, after: 9 * 60 }
const installationsPerPage = 100
const maxPages = 10

/** The adapter for a GitHub-compatible API. `pem` is the text of the app's private key; throws when it is invalid. */
export function githubProvider(settings: GitProviderSettings, pem: string): GitProvider {
  const ask = providerClient(settings.apiUrl)
  const askWeb = providerClient(settings.webUrl)
  const appToken = appTokens(settings.appId, privateKey(pem))
  const page = (path: string, query: Record<string, string>) =>
    `${settings.webUrl}${path}?${new URLSearchParams(query)}`

  return {
    installPage: state => page(`/apps/${encodeURIComponent(settings.appSlug)}/installations/new`, { state }),

    signInPage: (state, returnUrl) =>
      page('/login/oauth/authorize', { client_id: settings.clientId, redirect_uri: returnUrl, state }),

    async knowsApp(deadline) {
      const answer = await ask('/app', { token: await appToken(), deadline })
      return answer.status !== 401 && String(read(answer, z.object({ id: z.int() })).id) === settings.appId
    },

    async knowsClient(deadline) {
      const { clientId: client_id, clientSecret: client_secret } = settings
      const form = { client_id, client_secret, code: 'nobody-was-given-this' }
      const { status, body } = await askWeb('/login/oauth/access_token', { deadline, body: form })
      const answer = { status: status === 400 || status === 401 ? 200 : status, body }
      const { error } = read(answer, z.object({ error: z.string() }))
      if (error === 'bad_verification_code' || error === 'invalid_grant') return true
      return error === 'incorrect_client_credentials' || error === 'invalid_client' ? false : null
    },

    async visitor(code, returnUrl, deadline) {
      const form = { client_id: settings.clientId, client_secret: settings.clientSecret, code, redirect_uri: returnUrl }
      const answer = await askWeb('/login/oauth/access_token', { deadline, body: form })
      // A refused code is answered with 200 and an `error`.
      const grant = read(answer, z.object({ access_token: z.string().optional() }))
      if (!grant.access_token) return null
      const token = grant.access_token
      const { id, login } = read(await ask('/user', { token, deadline }), person)
      return { id, login, installations: await installationsOf(ask, token, deadline) }
    },

    async installationOf(name, deadline) {
      const answer = await ask(`/repos/${name}/installation`, { token: await appToken(), deadline })
      return answer.status === 404 ? null : read(answer, z.object({ id: z.int() })).id
    },

    async tokenOf(id, deadline, repositoryId) {
      const restriction = repositoryId && { repository_ids: [repositoryId], permissions: { contents: 'read' } }
      const request = { token: await appToken(), deadline, body: restriction || {} }
      const answer = await ask(`/app/installations/${id}/access_tokens`, request)
      // Deleted; suspended; no longer covers this repository, or may not read it.
      if ([403, 404, 422].includes(answer.status)) return null
      const { token, permissions } = read(answer, accessToken)
      return { token, readsContents: permissions.contents === 'read' || permissions.contents === 'write' }
    },

    async repository(token, name, deadline) {
      const answer = await ask(`/repos/${name}`, { token, deadline })
      if (answer.status === 403 || answer.status === 404) return null
      const { id, full_name, clone_url } = read(answer, repository)
      return { id, fullName: full_name, cloneUrl: clone_url }
    },

    async membership(token, name, login, deadline) {
      const path = `/repos/${name}/collaborators/${encodeURIComponent(login)}/permission`
      const answer = await ask(path, { token, deadline })
      if (answer.status === 403 || answer.status === 404) return null
      const { permission, user } = read(answer, membership)
      return { memberId: user.id, writes: permission === 'admin' || permission === 'write' }
    },

    async knowsToken(token, deadline) {
      return (await ask('/user', { token, deadline })).status !== 401
    },

    async hasBranch(token, name, branch, deadline) {
      const answer = await ask(`/repos/${name}/branches/${encodeURIComponent(branch)}`, { token, deadline })
      // A renamed branch redirects to its new name, which is another branch here.
      return answer.status !== 404 && read(answer, z.object({ name: z.string() })).name === branch
    },
  }
}

async function installationsOf(ask: SendRequest, token: string, deadline: AbortSignal): Promise<Installation[]> {
  const all: Installation[] = []
  for (let page = 1; page <= maxPages; page++) {
    const path = `/user/installations?per_page=${installationsPerPage}&page=${page}`
    const { installations } = read(await ask(path, { token, deadline }), z.object({ installations: installationList }))
    all.push(...installations.map(({ id, account }) => ({ id, account: account.login })))
    if (installations.length < installationsPerPage) break
  }
  return all
}

/** Signs a new token of the app for each request: a token is valid for minutes only. */
function appTokens(appId: string, key: KeyObject): () => Promise<string> {
  return () => {
    const now = Math.floor(Date.now() / 1000)
    return new SignJWT()
      .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
      .setIssuer(appId)
      .setIssuedAt(now - appTokenSeconds.before)
      .setExpirationTime(now + appTokenSeconds.after)
      .sign(key)
  }
}

function privateKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType === 'rsa') return key
  } catch {
    // Reported below, without the text of the key.
  }
  throw new Error(
    'The setting GIT_PROVIDER_PRIVATE_KEY must be an RSA private key in PEM, or a file that contains one.',
  )
}

/** Parses the answer's body with a schema. Throws VALIDATION_FAILED for an error status or another form. */
function read<T>({ status, body }: ProviderAnswer, schema: z.ZodType<T>): T {
  const parsed = status >= 200 && status < 300 ? schema.safeParse(body) : undefined
  if (!parsed?.success)
    throw new CodedError('VALIDATION_FAILED', `The git provider answered ${status} in an unexpected form.`)
  return parsed.data
}

const login = z.string().min(1).max(255)
const person = z.object({ id: z.int(), login })
const installationList = z.array(z.object({ id: z.int(), account: z.object({ login }) }))
const accessToken = z.object({
  token: z.string().min(1).max(1024),
  permissions: z.record(z.string(), z.string()).default({}),
})
const repository = z.object({
  id: z.int(),
  full_name: z.string().max(255),
  clone_url: z.url({ protocol: /^https?$/ }).max(2048),
})
const membership = z.object({ permission: z.string(), user: z.object({ id: z.int() }) })
