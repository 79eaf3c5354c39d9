import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { jwtVerify } from 'jose'
import type { GitProviderSettings } from '../../../policy/git/git-provider-settings.ts'
import { startOrigin } from '../servers/origin.ts'

interface Person {
  id: number
  login: string
  sees: number[]
}

export interface KnownRepository {
  id: number
  fullName: string
  private: boolean
  branches: string[]
  /** By login: admin, write, read, none. */
  permissions: Record<string, string>
}

interface KnownInstallation {
  id: number
  account: string
  repositories: Set<number>
  contents: string | undefined
  suspended: boolean
}

interface Grant {
  kind: 'installation' | 'person'
  installation?: number
  person?: number
  repositories?: number[]
}

type Answered = [status: number, body: unknown, headers?: Record<string, string>]

/**
 * A git provider as its published protocol says, for one app: it checks the app's signature, issues tokens, and shows each token
 * what it may see. `takeOver` scripts errors, redirects and slowness; true = it answered itself.
 */
export class GitProviderServer {
  readonly requests: { method: string; path: string; authorization: string | undefined }[] = []
  readonly issued: string[] = []
  readonly narrowed: unknown[] = []
  takeOver: (request: IncomingMessage, response: ServerResponse) => boolean = () => false
  cloneBase = ''
  url = ''
  stop: () => Promise<void> = async () => {}

  readonly #key = generateKeyPairSync('rsa', { modulusLength: 2048 })
  #keys = [this.#key.publicKey]
  readonly pem = this.#key.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string
  readonly appId = '4242'
  readonly clientSecret = randomBytes(20).toString('hex')
  /** What it takes now; during a rotation the earlier ones too. */
  clientSecrets = [this.clientSecret]
  readonly webhookSecret = randomBytes(20).toString('hex')
  readonly #people = new Map<number, Person>()
  readonly #codes = new Map<string, number>()
  readonly #grants = new Map<string, Grant>()
  readonly #installations = new Map<number, KnownInstallation>()
  readonly #repositories = new Map<string, KnownRepository>()
  #next = 1000

  static async start(): Promise<GitProviderServer> {
    const provider = new GitProviderServer()
    const origin = await startOrigin((request, response) => void provider.#serve(request, response))
    provider.url = `http://127.0.0.1:${origin.port}`
    provider.cloneBase = provider.url
    provider.stop = origin.stop
    return provider
  }

  get settings(): GitProviderSettings {
    return {
      apiUrl: `${this.url}/api`,
      webUrl: this.url,
      appId: this.appId,
      appSlug: 'berth-test',
      privateKey: this.pem,
      webhookSecret: this.webhookSecret,
      clientId: 'Iv1.client',
      clientSecret: this.clientSecret,
    }
  }

  /** Adds another key of the app and another secret of its client to the present ones. */
  renew(): { pem: string; clientSecret: string } {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const clientSecret = randomBytes(20).toString('hex')
    this.#keys = [...this.#keys, publicKey]
    this.clientSecrets = [...this.clientSecrets, clientSecret]
    return { pem: privateKey.export({ type: 'pkcs1', format: 'pem' }) as string, clientSecret }
  }

  person(login: string = `p-${randomUUID().slice(0, 8)}`): Person {
    const person = { id: this.#next++, login, sees: [] }
    this.#people.set(person.id, person)
    return person
  }

  /** What the provider sends a person back with once they said who they are. */
  code(person: Person): string {
    const code = randomBytes(10).toString('hex')
    this.#codes.set(code, person.id)
    return code
  }

  repository(fullName: string, options: Partial<KnownRepository> = {}): KnownRepository {
    const usual = { private: true, branches: ['main'], permissions: {} }
    const repository = { ...usual, ...options, fullName, id: this.#next++ }
    this.#repositories.set(fullName.toLowerCase(), repository)
    return repository
  }

  install(account: string, repositories: KnownRepository[], person?: Person): KnownInstallation {
    const ids = new Set(repositories.map(({ id }) => id))
    const installation = { id: this.#next++, account, repositories: ids, contents: 'read', suspended: false }
    this.#installations.set(installation.id, installation)
    person?.sees.push(installation.id)
    return installation
  }

  uninstall({ id }: { id: number }): void {
    this.#installations.delete(id)
  }

  /** Whether a token that this provider issued may read a repository now. */
  mayRead(token: string, repository: KnownRepository): boolean {
    const grant = this.#grants.get(token)
    return grant !== undefined && this.#visible(grant, repository)
  }

  cloneUrl = ({ fullName }: KnownRepository) => `${this.cloneBase}/${fullName}.git`

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '/'
    const { authorization } = request.headers
    this.requests.push({ method: request.method ?? '', path, authorization })
    if (this.takeOver(request, response)) return
    let text = ''
    for await (const chunk of request) text += chunk
    const [status, body, headers] = await this.#answer(path, text && JSON.parse(text), authorization ?? '')
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }

  async #answer(path: string, body: Record<string, unknown>, authorization: string): Promise<Answered> {
    if (path === '/login/oauth/access_token') return this.#exchange(body)
    const { pathname, searchParams } = new URL(path.replace(/^\/api/, ''), this.url)
    const bearer = /^Bearer (.+)$/.exec(authorization)?.[1] ?? ''
    if (pathname === '/app') return (await this.#signed(bearer)) ? [200, { id: Number(this.appId) }] : undecoded
    const asApp =
      /^\/app\/installations\/(\d+)\/access_tokens$/.exec(pathname) ??
      /^\/repos\/([^/]+\/[^/]+)\/installation$/.exec(pathname)
    if (asApp) {
      if (!(await this.#signed(bearer))) return undecoded
      return asApp[0].startsWith('/app') ? this.#token(Number(asApp[1]), body) : this.#covering(asApp[1]!)
    }
    const grant = this.#grants.get(bearer)
    if (!grant) return [401, { message: 'Bad credentials' }]
    if (pathname === '/user') return [200, this.#people.get(grant.person!)]
    if (pathname === '/user/installations') return [200, this.#seenBy(grant, searchParams)]
    const [, name = '', rest = ''] = /^\/repos\/([^/]+\/[^/]+)(\/.*)?$/.exec(pathname) ?? []
    const repository = this.#repositories.get(name.toLowerCase())
    if (!repository || !(this.#visible(grant, repository) || !repository.private)) return notFound
    return this.#repositoryAnswer(repository, rest)
  }

  #repositoryAnswer(repository: KnownRepository, rest: string): Answered {
    const { id, fullName, branches, permissions } = repository
    if (rest === '') return [200, { id, full_name: fullName, clone_url: this.cloneUrl(repository) }]
    const branch = /^\/branches\/([^/]+)$/.exec(rest)?.[1]
    if (branch) {
      const name = decodeURIComponent(branch)
      return branches.includes(name) ? [200, { name, commit: { sha: 'b'.repeat(40) } }] : notFound
    }
    const login = /^\/collaborators\/([^/]+)\/permission$/.exec(rest)?.[1]
    const person = [...this.#people.values()].find(someone => someone.login === login)
    if (!person) return notFound
    return [200, { permission: permissions[person.login] ?? 'none', user: { id: person.id, login } }]
  }

  #exchange({ client_id, client_secret, code }: Record<string, unknown>): Answered {
    const person = this.#codes.get(String(code))
    this.#codes.delete(String(code))
    if (client_id !== this.settings.clientId || !this.clientSecrets.includes(String(client_secret)))
      return [200, { error: 'incorrect_client_credentials' }]
    if (person === undefined) return [200, { error: 'bad_verification_code' }]
    return [200, { access_token: this.#issue('ghu_', { kind: 'person', person }), token_type: 'bearer' }]
  }

  #token(id: number, { repository_ids }: Record<string, unknown>): Answered {
    const installation = this.#installations.get(id)
    if (!installation) return notFound
    if (installation.suspended) return [403, { message: 'This installation has been suspended' }]
    const repositories = repository_ids as number[] | undefined
    this.narrowed.push(repositories)
    if (repositories?.some(wanted => !installation.repositories.has(wanted)))
      return [422, { message: 'There is at least one repository that does not exist or is not accessible' }]
    const token = this.#issue('ghs_', { kind: 'installation', installation: id, repositories })
    const { contents } = installation
    return [201, { token, expires_at: new Date(Date.now() + 3_600_000), permissions: { metadata: 'read', contents } }]
  }

  #covering(name: string): Answered {
    const repository = this.#repositories.get(name.toLowerCase())
    const found = [...this.#installations.values()].find(({ repositories }) => repositories.has(repository?.id ?? -1))
    return found ? [200, { id: found.id, account: { login: found.account } }] : notFound
  }

  #seenBy({ person }: Grant, query: URLSearchParams): object {
    const all = (this.#people.get(person!)?.sees ?? []).flatMap(id => this.#installations.get(id) ?? [])
    const [page, size] = [Number(query.get('page')), Number(query.get('per_page'))]
    const some = all.slice((page - 1) * size, page * size)
    return {
      total_count: all.length,
      installations: some.map(({ id, account }) => ({ id, account: { login: account } })),
    }
  }

  #visible({ kind, installation, repositories }: Grant, { id }: KnownRepository): boolean {
    const covers = kind === 'installation' && this.#installations.get(installation!)?.repositories.has(id)
    return Boolean(covers) && (repositories?.includes(id) ?? true)
  }

  #issue(prefix: string, grant: Grant): string {
    const token = prefix + randomBytes(18).toString('hex')
    this.#grants.set(token, grant)
    this.issued.push(token)
    return token
  }

  /** As the provider checks it: RS256 by this app, already valid, and for at most 10 minutes. */
  async #signed(token: string): Promise<boolean> {
    const options = { algorithms: ['RS256'], issuer: this.appId, requiredClaims: ['iat', 'exp'] }
    const tried = await Promise.all(this.#keys.map(key => jwtVerify(token, key, options).catch(() => null)))
    const read = tried.find(Boolean)
    if (!read) return false
    const now = Date.now() / 1000
    return read.payload.iat! <= now && read.payload.exp! <= now + 600
  }
}

const undecoded: Answered = [401, { message: 'A JSON web token could not be decoded' }]
const notFound: Answered = [404, { message: 'Not Found' }]
