import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { findUser } from '../../../db/accounts/accounts.ts'
import { listApps } from '../../../db/apps/apps.ts'
import { listDatabases } from '../../../db/databases/databases.ts'
import { planOf } from '../../../policy/accounts/plans.ts'
import { CodedError } from '../../../policy/errors.ts'
import { coversResource } from '../../pipeline/access.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { appSummaryView } from '../../views/app.ts'
import { databaseSummaryView } from '../../views/database.ts'
import { userView } from '../../views/user.ts'
import { profile } from '../schemas.ts'

/** Contract 3.1. */
export const getCurrentUser = endpoint({
  name: 'users.me',
  method: 'GET',
  path: '/v2/users/me',
  summary: 'Show the account with its applications and databases',
  auth: { scope: 'account:read' },
  response: profile,
  async handle({ caller }, { db, config, plans }) {
    // A caller may be remembered as it was before its own change of name, language or plan.
    const user = await findUser(db, caller.user.id)
    if (!user) throw new CodedError('ACCESS_DENIED')
    const apps = await listApps(db, caller.user.id)
    const databases = await listDatabases(db, caller.user.id)
    const usedMb = await usedMemoryMb(db, caller.user.id)
    return {
      user: userView(user, planOf(plans, user, new Date()), usedMb),
      applications: apps
        .filter(app => coversResource(caller, app.id))
        .map(app => appSummaryView(app, config.appsDomain)),
      databases: databases.filter(({ id }) => coversResource(caller, id)).map(databaseSummaryView),
    }
  },
})
