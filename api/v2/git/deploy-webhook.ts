import { z } from 'zod'
import type { GitProvider } from '../../../activities/git-provider/port.ts'
import type { Db } from '../../../db/database.ts'
import { removeWebhook, setWebhook } from '../../../db/git/webhooks.ts'
import { CodedError } from '../../../policy/errors.ts'
import { newWebhookAddress } from '../../../policy/git/webhooks/addresses.ts'
import { characters } from '../../../policy/stated-bounds.ts'
import { accessStill } from '../../pipeline/access.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** In place of a token: removes webhook, token and secret. */
const removal = '@'

const maxTokenLength = 1024
/** One non-blank line of characters of the Basic Multilingual Plane. */
const tokenForm = new RegExp(String.raw`^(?=.*\S)[\u0020-\u007e\u00a0-\ud7ff\ue000-\uffff]{1,${maxTokenLength}}$`, 'u')

/** Contract 6.6. The address is the credential of deliveries. Setting the webhook again keeps it; removing it is final. */
export const setDeployWebhook = endpoint({
  name: 'apps.webhook',
  method: 'POST',
  path: '/v2/apps/{appId}/deploy/webhook',
  summary: 'Set or remove the git webhook of an application',
  auth: { scope: 'apps:deploy', permission: 'deploy_webhook' },
  body: z.object({
    access_token: z
      .string({ error: 'INVALID_ACCESS_TOKEN' })
      .regex(tokenForm, 'INVALID_ACCESS_TOKEN')
      .meta({ maxLength: maxTokenLength }),
    secret: characters({ min: 8, max: 255 })
      .nullish()
      .describe('Deliveries must be signed with it. Left out, it is unchanged; null removes it.'),
  }),
  response: z.object({ webhook: z.string() }).optional(),
  errors: ['INVALID_ACCESS_TOKEN'],
  async handle({ app, body, caller, exchange }, { db, config, sources, gitProvider }) {
    if (body.access_token === removal) {
      await removeWebhook(db, app.id)
      sources.drop(app.id)
      return undefined
    }
    if (await isRefused(body.access_token, gitProvider)) throw new CodedError('INVALID_ACCESS_TOKEN')
    const fresh = newWebhookAddress(config.masterKey)
    const whenLocked = async (trx: Db) => {
      await accessStill(trx, caller, exchange.path.appId ?? '', 'deploy_webhook')
      await auditWithin(trx, 'apps.webhook', { caller, app }, exchange)
    }
    const settings = { appId: app.id, address: fresh, token: body.access_token, secret: body.secret, whenLocked }
    const address = await setWebhook(db, config.sealKeys, settings)
    sources.drop(app.id)
    return { webhook: webhookUrl(config.urls.base, address) }
  },
})

/** Tokens whose form shows that they belong to a GitHub-compatible provider; others may be any server's. */
const ofProvider = /^(gh[a-z]|github_pat)_\w+$/

/** Whether the configured provider refuses a token of its own. One that does not answer within 5 s counts as accepting it. */
async function isRefused(token: string, provider: GitProvider | null): Promise<boolean> {
  if (!provider || !ofProvider.test(token)) return false
  const isKnown = provider.knowsToken(token, AbortSignal.timeout(5000))
  return !(await isKnown.catch(() => true))
}

/** The address for deliveries. */
export function webhookUrl(baseUrl: string, address: string): string {
  return `${baseUrl}/v2/git/webhook/${address}`
}
