import { createHmac, randomUUID } from 'node:crypto'
import type { GitProviderServer, KnownRepository } from './git-provider.ts'
import type { GitServer } from './git-server.ts'

/** An event as the git provider delivers it to the address of the platform's app, signed. */
export function appEvent(
  provider: GitProviderServer,
  name: string,
  payload: object,
  { secret = provider.webhookSecret, id = randomUUID() }: { secret?: string; id?: string } = {},
): { headers: Record<string, string>; body: string } {
  const body = JSON.stringify(payload)
  const signature = createHmac('sha256', secret).update(body).digest('hex')
  const headers = {
    'content-type': 'application/json',
    'x-github-event': name,
    'x-github-delivery': id,
    'x-hub-signature-256': `sha256=${signature}`,
  }
  return { headers, body }
}

/** What a push of a covered repository says. */
export function appPush(
  provider: GitProviderServer,
  repository: KnownRepository,
  { installationId, commit, branch = 'main' }: { installationId: number; commit: string; branch?: string },
) {
  const [owner, name] = repository.fullName.split('/')
  return {
    ref: `refs/heads/${branch}`,
    before: 'a'.repeat(40),
    after: commit,
    commits: [],
    repository: {
      id: repository.id,
      name,
      full_name: repository.fullName,
      owner: { login: owner },
      clone_url: provider.cloneUrl(repository),
    },
    installation: { id: installationId },
  }
}

/** Makes the git server check every password for this repository with the provider, as the provider's own would; returns a function that ends that. */
export function asksProvider(server: GitServer, provider: GitProviderServer, repository: KnownRepository): () => void {
  const before = server.behaviour.answer
  server.behaviour.answer = (request, answer) => {
    const { authorization } = request.headers
    if (!request.url?.startsWith(`/${repository.fullName}.git`) || !authorization) return before(request, answer)
    const [name, password = ''] = Buffer.from(authorization.slice(6), 'base64').toString().split(':')
    const good = name === 'x-access-token' && provider.mayRead(password, repository)
    if (good) request.headers.authorization = `Basic ${Buffer.from(`x:${server.token}`).toString('base64')}`
    else answer.writeHead(401, { 'www-authenticate': 'Basic' }).end()
    return !good
  }
  return () => {
    server.behaviour.answer = before
  }
}
