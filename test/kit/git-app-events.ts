import { createHmac, randomUUID } from 'node:crypto'
import type { GitProviderServer, KnownRepository } from './git-provider.ts'

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
