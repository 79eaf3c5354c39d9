import type { GitProvider, Repository } from '../../../activities/git-provider/port.ts'
import type { Db } from '../../../db/database.ts'
import { type BoundInstallation, listInstallations } from '../../../db/git/git-links.ts'
import { CodedError } from '../../../policy/errors.ts'
import { isBranchName } from '../../../policy/git/git-source.ts'
import { isRepositoryName } from '../../../policy/git/repository-name.ts'

/** For all queries of the git provider together. */
const timeoutMs = 5000

export interface Linkable {
  installationId: number
  repository: Repository
}

/**
 * The repository, if an installation of this account covers it, its user may write to it, and it has the branch. Otherwise throws the
 * codes of contract 6.14; a repository that the account cannot see is treated like a missing one.
 */
export async function linkableRepository(
  { db, gitProvider }: { db: Db; gitProvider: GitProvider | null },
  userId: string,
  { name, branch }: { name: string; branch: string },
): Promise<Linkable> {
  if (!gitProvider) throw new CodedError('GITHUB_NOT_CONNECTED', 'No git provider is set up on this platform.')
  const installations = await listInstallations(db, userId)
  if (installations.length === 0) throw new CodedError('GITHUB_NOT_CONNECTED')
  if (!isRepositoryName(name)) throw new CodedError('REPOSITORY_NOT_FOUND', 'Name the repository as owner/name.')
  const deadline = AbortSignal.timeout(timeoutMs)
  const covering = await gitProvider.installationOf(name, deadline)
  const own = installations.find(({ id }) => id === covering)
  if (!own) throw await uncovered(gitProvider, installations, name, deadline)
  return { installationId: own.id, repository: await examine(gitProvider, own, { name, branch }, deadline) }
}

async function examine(
  provider: GitProvider,
  { id, member }: BoundInstallation,
  { name, branch }: { name: string; branch: string },
  deadline: AbortSignal,
): Promise<Repository> {
  const granted = await provider.tokenOf(id, deadline)
  if (!granted)
    throw new CodedError('REPOSITORY_NOT_AVAILABLE', 'Your installation of the git app is suspended or was removed.')
  const { token } = granted
  const repository = await provider.repository(token, name, deadline)
  if (!repository) throw new CodedError('REPOSITORY_NOT_FOUND')
  const membership = await provider.membership(token, name, member.login, deadline)
  // A login name that changed hands belongs to another user.
  if (!membership?.writes || membership.memberId !== member.id) throw new CodedError('REPOSITORY_PERMISSION_REQUIRED')
  if (!granted.readsContents)
    throw new CodedError(
      'REPOSITORY_PERMISSION_REQUIRED',
      'The installation of the git app lacks the permission to read contents.',
    )
  if (!isBranchName(branch) || !(await provider.hasBranch(token, name, branch, deadline)))
    throw new CodedError('BRANCH_NOT_FOUND')
  return repository
}

/** Distinguishes public repositories, the only uncovered ones that the account's installation can see, from missing ones. */
async function uncovered(
  provider: GitProvider,
  installations: BoundInstallation[],
  name: string,
  deadline: AbortSignal,
): Promise<CodedError> {
  const [any] = installations
  const granted = any && (await provider.tokenOf(any.id, deadline))
  const isVisible = granted && (await provider.repository(granted.token, name, deadline))
  return new CodedError(isVisible ? 'REPOSITORY_NOT_AVAILABLE' : 'REPOSITORY_NOT_FOUND')
}
