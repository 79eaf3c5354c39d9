import { findAppOfPush, forgetInstallation, unlinkRepositories } from '../../../db/git/git-links.ts'
import { bodyBudgets, maxDeliveryBytes } from '../../../policy/body-budgets.ts'
import { webhookSecrets } from '../../../policy/git/git-provider-settings.ts'
import type { AppEvent } from '../../../policy/git/webhooks/app-events.ts'
import type { ReadDelivery } from '../../../policy/git/webhooks/deliveries.ts'
import { unknownReply, verdictReply, type WebhookReply } from '../../../policy/git/webhooks/replies.ts'
import { isSigned } from '../../../policy/git/webhooks/signatures.ts'
import { BodyBudget } from '../../http/body-budget.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { acceptDelivery, acceptPush, deliveryErrors, refusalText, textReply } from './git-deliveries.ts'

const budget = new BodyBudget(bodyBudgets.gitApp)

const unsigned = verdictReply('refused', 401, 'the signature is missing or wrong')

/** Contract 6.16: events that the git provider sends to this platform's app. The signature is the credential. */
export const receiveGitAppEvent = endpoint({
  name: 'git.app',
  method: 'POST',
  path: '/v2/git/app',
  summary: "Receive events of the git provider for this platform's app",
  auth: 'public',
  uncounted: true,
  envelope: false,
  maxBodyBytes: maxDeliveryBytes,
  refusal: refusalText,
  errors: deliveryErrors,
  async handle({ exchange }, services) {
    const { gitProvider } = services.config
    if (gitProvider === null) return textReply(unknownReply)
    const secrets = webhookSecrets(gitProvider.webhookSecret)
    if (secrets.length === 0) return textReply(unsigned)
    const { headers } = exchange.request
    // A body that cannot be genuine is not read.
    if (!/^sha256=[0-9a-f]{64}$/i.test(String(headers['x-hub-signature-256'] ?? ''))) return textReply(unsigned)
    const { delivery, event } = await acceptDelivery(exchange, {
      kind: 'app',
      budget,
      isSigned: body => secrets.some(secret => isSigned(secret, headers, body, new Date())),
    })
    if (event?.kind === 'push') return textReply(await deploy(delivery, event, services))
    return textReply(event ? await unlink(event, services) : replyOf(delivery))
  },
})

const replyOf = ({ verdict }: ReadDelivery): WebhookReply =>
  verdict.kind === 'push'
    ? verdictReply('refused', 400, 'the payload has no usable "installation" or "repository"')
    : verdictReply(verdict.kind, verdict.status, verdict.reason)

async function deploy(
  delivery: ReadDelivery,
  { installationId, repositoryId }: Extract<AppEvent, { kind: 'push' }>,
  services: Services,
): Promise<WebhookReply> {
  const startedAt = performance.now()
  const branch = delivery.branch ?? ''
  const app = await findAppOfPush(services.db, { installationId, repositoryId, branch })
  if (!app) return verdictReply('ignored', 202, `no application is linked to the branch ${branch} of this repository`)
  const source = { webhookId: null, appId: app.id, ownerId: app.ownerId, limitScale: services.config.rateLimitScale }
  return acceptPush(source, delivery, { restart: true, spentMs: performance.now() - startedAt }, services)
}

/** Unlinks what the installation no longer covers. A repeated event changes nothing. */
async function unlink(event: Exclude<AppEvent, { kind: 'push' }>, { db, sources }: Services): Promise<WebhookReply> {
  const unlinked = await (event.kind === 'removed'
    ? forgetInstallation(db, event.installationId)
    : unlinkRepositories(db, event.installationId, event.repositoryIds))
  // The notification reaches this process too, but possibly after the next request.
  for (const appId of unlinked) sources.drop(appId)
  return verdictReply('ignored', 202, 'repositories that the app no longer covers were unlinked')
}
