import { readFile } from 'node:fs/promises'
import { githubProvider } from '../../activities/git-provider/github.ts'
import type { GitProvider } from '../../activities/git-provider/port.ts'
import type { Config } from '../../policy/config.ts'

/** The platform's app at the git provider, or null if the operator has configured none. Rejects when its key is invalid. */
export async function openGitProvider({ gitProvider }: Pick<Config, 'gitProvider'>): Promise<GitProvider | null> {
  return gitProvider && githubProvider(gitProvider, await keyText(gitProvider.privateKey))
}

/** In an environment file the line ends of a PEM text are written as \n. */
async function keyText(setting: string): Promise<string> {
  if (setting.startsWith('-----BEGIN')) return setting.replaceAll('\\n', '\n')
  return readFile(setting, 'utf8').catch(() => {
    throw new Error('The file that the setting GIT_PROVIDER_PRIVATE_KEY names cannot be read.')
  })
}
