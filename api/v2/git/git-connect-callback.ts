import { z } from 'zod'
import type { Visitor } from '../../../activities/git-provider/port.ts'
import { findUser } from '../../../db/accounts/accounts.ts'
import { readConnection, signConnection } from '../../../policy/git/git-connection.ts'
import { page } from '../../http/pages/pages.ts'
import { type Reply, toApiError } from '../../http/respond.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { notSetUp, returnUrl } from './git-connect.ts'
import { connectCookieIn } from './git-connect-cookie.ts'
import { offerPage } from './git-connect-offer.ts'

const patienceMs = 5000

const text = z.string().max(4096).optional().catch(undefined)

/**
 * Contract 6.15. An installation's number proves nothing, since anybody can write one into this address: it is offered only after the
 * provider has said, by the person's own code, that this person may see it, and bound once the account's session agrees.
 */
export const completeGitConnection = endpoint({
  name: 'git.connect.callback',
  method: 'GET',
  path: '/git/connect/callback',
  summary: 'Come back from the git provider',
  auth: 'public',
  envelope: false,
  query: z.object({
    state: text,
    code: text,
    error: text,
    setup_action: text,
    installation_id: z.coerce.number().int().positive().optional().catch(undefined),
  }),
  async handle({ exchange, query }, services) {
    const { gitProvider, config, db } = services
    if (!gitProvider) return notSetUp(exchange)
    const browser = connectCookieIn(config.urls.base, exchange.request.headers.cookie)
    const connection = await readConnection(config.masterKey, query.state ?? '', browser)
    const user = connection && (await findUser(db, connection.userId))
    if (!connection || !user || user.blocked_at) return strange
    if (query.error) return refused
    const installationId = connection.installationId ?? query.installation_id
    if (query.setup_action === 'request' && installationId === undefined) return requested
    const { userId } = connection
    if (!query.code) {
      const state = await signConnection(config.masterKey, { userId, browser, installationId })
      return { status: 302, headers: { Location: gitProvider.signInPage(state, returnUrl(services)) } }
    }
    try {
      const visitor = await gitProvider.visitor(query.code, returnUrl(services), AbortSignal.timeout(patienceMs))
      if (!visitor) return refused
      const { id, login } = visitor
      const installations = visible(visitor, installationId)
      if (installations.length === 0) return installationId === undefined ? nowhere : foreign
      return await offerPage(exchange, services, {
        userId,
        browser,
        member: { id, login },
        installations,
        email: user.email,
      })
    } catch (thrown) {
      return unwell(services, thrown)
    }
  },
})

/** What the person may see of what was asked for; everything when nothing was. */
function visible({ installations }: Visitor, wanted: number | undefined): Visitor['installations'] {
  return wanted === undefined ? installations : installations.filter(({ id }) => id === wanted)
}

/** The provider's trouble, as a page; what is ours goes the usual way. */
function unwell({ log }: Services, thrown: unknown): Reply {
  const error = toApiError(thrown)
  if (!['VALIDATION_TIMEOUT', 'VALIDATION_FAILED', 'FAILED_TO_FETCH'].includes(error.code)) throw thrown
  log.warn({ code: error.code, said: error.message }, 'the git provider did not say who came back')
  return page({ status: error.status, title: 'Not connected', text: [error.message, again, `Code: ${error.code}`] })
}

const again = 'Nothing was changed. Begin again at /git/connect.'

const strange = page({
  status: 400,
  title: 'Not connected',
  text: ['This visit did not begin in this browser, or began more than 10 minutes ago.', again],
})
const refused = page({
  status: 403,
  title: 'Not connected',
  text: ['The git provider did not confirm who you are.', again],
})
const requested = page({
  title: 'Asked',
  text: ['The owner of the organization has to approve the installation. Connect again once that is done.'],
})
const foreign = page({
  status: 403,
  title: 'Not connected',
  text: ['The git provider says that this installation does not exist, or that you may not see it.', again],
})
const nowhere = page({
  status: 403,
  title: 'Not connected',
  text: ['The app is installed nowhere that you may see. Choose repositories first.', again],
})
