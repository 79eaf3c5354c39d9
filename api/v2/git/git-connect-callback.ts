import { z } from 'zod'
import type { Visitor } from '../../../activities/git-provider/port.ts'
import { findUser } from '../../../db/accounts/accounts.ts'
import { readConnection, signConnection } from '../../../policy/git/git-connection.ts'
import { page } from '../../http/pages/pages.ts'
import { type Reply, toCodedError } from '../../http/respond.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { notSetUp, returnUrl } from './git-connect.ts'
import { connectCookieIn } from './git-connect-cookie.ts'
import { offerPage } from './git-connect-offer.ts'

const timeoutMs = 5000

const text = z.string().max(4096).optional().catch(undefined)

/**
 * Contract 6.15. An installation's number proves nothing, since anyone can put one into this address: it is offered only after the
 * provider has confirmed, with the user's own code, that this user may see it, and bound once the account's session agrees.
 */
export const completeGitConnection = endpoint({
  name: 'git.connect.callback',
  method: 'GET',
  path: '/git/connect/callback',
  summary: 'Return from the git provider',
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
    if (!connection || !user || user.blocked_at) return unknownVisit
    if (query.error) return refused
    const installationId = connection.installationId ?? query.installation_id
    if (query.setup_action === 'request' && installationId === undefined) return requested
    const { userId } = connection
    if (!query.code) {
      const state = await signConnection(config.masterKey, { userId, browser, installationId })
      return { status: 302, headers: { Location: gitProvider.signInPage(state, returnUrl(services)) } }
    }
    try {
      const visitor = await gitProvider.visitor(query.code, returnUrl(services), AbortSignal.timeout(timeoutMs))
      if (!visitor) return refused
      const { id, login } = visitor
      const installations = visible(visitor, installationId)
      if (installations.length === 0) return installationId === undefined ? notInstalled : notVisible
      return await offerPage(exchange, services, {
        userId,
        browser,
        member: { id, login },
        installations,
        email: user.email,
      })
    } catch (thrown) {
      return providerFailure(services, thrown)
    }
  },
})

/** The requested installation, if the user may see it; all that the user may see when none was requested. */
function visible({ installations }: Visitor, requestedId: number | undefined): Visitor['installations'] {
  return requestedId === undefined ? installations : installations.filter(({ id }) => id === requestedId)
}

/** A failure of the provider, as a page; other errors are thrown again. */
function providerFailure({ log }: Services, thrown: unknown): Reply {
  const error = toCodedError(thrown)
  if (!['VALIDATION_TIMEOUT', 'VALIDATION_FAILED', 'FAILED_TO_FETCH'].includes(error.code)) throw thrown
  log.warn({ code: error.code, said: error.message }, 'the git provider did not identify the visitor')
  return page({ status: error.status, title: 'Not connected', text: [error.message, again, `Code: ${error.code}`] })
}

const again = 'Nothing was changed. Start again at /git/connect.'

const unknownVisit = page({
  status: 400,
  title: 'Not connected',
  text: ['This visit did not start in this browser, or started more than 10 minutes ago.', again],
})
const refused = page({
  status: 403,
  title: 'Not connected',
  text: ['The git provider did not confirm who you are.', again],
})
const requested = page({
  title: 'Requested',
  text: ['The owner of the organization must approve the installation. Connect again once that is done.'],
})
const notVisible = page({
  status: 403,
  title: 'Not connected',
  text: ['The git provider says that this installation does not exist, or that you may not see it.', again],
})
const notInstalled = page({
  status: 403,
  title: 'Not connected',
  text: ['You can see no installation of the app. Choose repositories first.', again],
})
