import { randomUUID } from 'node:crypto'
import test from 'ava'
import { githubProvider } from '../../../activities/git-provider/github.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import { bindInstallations } from '../../../db/git/git-links.ts'
import { type Answer, type TestApi, type TestApiOptions, type TestUser, testApi } from '../actors/api.ts'
import { GitProviderServer, type KnownRepository } from './git-provider.ts'

export interface Connected {
  user: TestUser
  app: AppRow
  person: ReturnType<GitProviderServer['person']>
  repository: KnownRepository
  installation: ReturnType<GitProviderServer['install']>
}

/** What takes the place of the secret of the provider's deliveries: both count meanwhile, also with blanks around them. */
export const laterWebhookSecret = 'the-one-that-comes-next'

/** The API with a git provider. Call it once at the top level of a test file. */
export async function testProviderApi(options: TestApiOptions = {}) {
  const provider = await GitProviderServer.start()
  test.after.always('stop the git provider', () => provider.stop())
  const { settings } = provider
  const api = testApi({
    ...options,
    config: {
      ...options.config,
      gitProvider: { ...settings, webhookSecret: ` ${laterWebhookSecret} ${settings.webhookSecret}\n` },
    },
    services: services => ({
      gitProvider: githubProvider(settings, provider.pem),
      ...options.services?.(services),
    }),
  })

  /** An account whose person at the provider installed the app for one repository. */
  async function connected(options: Partial<KnownRepository> = {}): Promise<Connected> {
    const user = await api().makeUser()
    const person = provider.person()
    const name = `${person.login}/shop-${randomUUID().slice(0, 8)}`
    const repository = provider.repository(name, { permissions: { [person.login]: 'write' }, ...options })
    const installation = provider.install(person.login, [repository], person)
    await bindInstallations(api().db, user.id, person, [installation])
    return { user, app: await api().makeApp(user), person, repository, installation }
  }
  return { api, provider, connected }
}

export function link(
  api: TestApi,
  user: TestUser,
  appId: string,
  repositoryName: unknown,
  repositoryBranch: unknown = 'main',
): Promise<Answer> {
  return api.as(user).post(`/v2/apps/${appId}/deploy/github-app`, JSON.stringify({ repositoryName, repositoryBranch }))
}
