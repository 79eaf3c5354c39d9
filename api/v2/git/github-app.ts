import { z } from 'zod'
import type { Db } from '../../../db/database.ts'
import {
  unlinkRepository as deleteRepositoryLink,
  isLinked,
  linkRepository as saveRepositoryLink,
} from '../../../db/git/git-links.ts'
import { CodedError } from '../../../policy/errors.ts'
import { isLengthWithin } from '../../../policy/stated-bounds.ts'
import { accessStill } from '../../pipeline/access.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { linkableRepository } from './linkable-repository.ts'

const path = '/v2/apps/{appId}/deploy/github-app'
const auth = { scope: 'apps:deploy', permission: 'deploy_webhook' } as const
const named = z.string({ error: 'MISSING_REQUIRED_FIELDS' }).min(1, 'MISSING_REQUIRED_FIELDS')
const maxBranchLength = 256
const branch = named
  .refine(text => isLengthWithin(text, 0, maxBranchLength), 'INVALID_BRANCH_LENGTH')
  .meta({ maxLength: maxBranchLength })

/** Contract 6.14. One repository and branch belong to one application platform-wide; of many concurrent callers one wins. */
export const linkRepository = endpoint({
  name: 'apps.link',
  method: 'POST',
  path,
  summary: 'Link an application to a repository of the git provider',
  auth,
  body: z.object({ repositoryName: named, repositoryBranch: branch }),
  response: z.object({ repository: z.object({ id: z.int(), full_name: z.string(), branch: z.string() }) }),
  errors: [
    'MISSING_REQUIRED_FIELDS',
    'INVALID_BRANCH_LENGTH',
    'GIT_ALREADY_CONFIGURED',
    'BRANCH_NOT_FOUND',
    'GITHUB_NOT_CONNECTED',
    'REPOSITORY_NOT_AVAILABLE',
    'REPOSITORY_PERMISSION_REQUIRED',
    'REPOSITORY_NOT_FOUND',
    'REPOSITORY_BRANCH_ALREADY_CONFIGURED',
    'VALIDATION_FAILED',
    'FAILED_TO_FETCH',
    'VALIDATION_TIMEOUT',
  ],
  async handle({ app, caller, body, exchange }, services) {
    const { db, sources } = services
    const { repositoryName: name, repositoryBranch: branch } = body
    if (await isLinked(db, app.id)) throw new CodedError('GIT_ALREADY_CONFIGURED')
    const userId = caller.user.id
    const { installationId, repository } = await linkableRepository(services, userId, { name, branch })
    const whenLocked = (trx: Db) => accessStill(trx, caller, exchange.path.appId ?? '', auth.permission)
    const linking = await saveRepositoryLink(db, {
      appId: app.id,
      userId,
      installationId,
      repository,
      branch,
      whenLocked,
      record: trx => auditWithin(trx, 'apps.link', { caller, app }, exchange),
    })
    sources.drop(app.id)
    if (linking.kind === 'configured') throw new CodedError('GIT_ALREADY_CONFIGURED')
    if (linking.kind === 'gone') throw new CodedError(linking.what === 'app' ? 'APP_NOT_FOUND' : 'GITHUB_NOT_CONNECTED')
    if (linking.kind === 'taken') {
      const other = linking.ownerId === userId ? `Your application ${linking.name} (${linking.appId})` : undefined
      throw new CodedError(
        'REPOSITORY_BRANCH_ALREADY_CONFIGURED',
        other && `${other} is already linked to this branch.`,
      )
    }
    return { repository: { id: repository.id, full_name: repository.fullName, branch } }
  },
})

export const unlinkRepository = endpoint({
  name: 'apps.unlink',
  method: 'DELETE',
  path,
  summary: 'Unlink an application from its repository',
  auth,
  errors: ['GIT_NOT_CONFIGURED'],
  async handle({ app, caller, exchange }, { db, sources }) {
    const record = (trx: Db) => auditWithin(trx, 'apps.unlink', { caller, app }, exchange)
    const removed = await deleteRepositoryLink(db, app.id, record)
    sources.drop(app.id)
    if (!removed) throw new CodedError('GIT_NOT_CONFIGURED')
    return undefined
  },
})
