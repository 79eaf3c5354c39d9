import { z } from 'zod'
import { type InboundDelivery, payloadOf, type ReadDelivery, readDelivery } from './deliveries.ts'

/** Events of the git provider for the platform's app that are handled. */
export type AppEvent =
  | { kind: 'push'; installationId: number; repositoryId: number }
  /** The app was removed: no repository is covered any more. */
  | { kind: 'removed'; installationId: number }
  /** Some repositories are no longer covered. */
  | { kind: 'narrowed'; installationId: number; repositoryIds: number[] }

const aboutInstallations = ['installation', 'installation_repositories']

/** A delivery for the platform's app. `event` is undefined for others, and for refused ones. */
interface AppDelivery {
  delivery: ReadDelivery
  event: AppEvent | undefined
}

/** `readDelivery` for the platform's app. Pure. */
function readAppDelivery(inbound: InboundDelivery): AppDelivery {
  const delivery = readDelivery(inbound)
  return { delivery, event: appEventOf(delivery, inbound) }
}

/** How deliveries are read: of a webhook, and of the platform's app. */
export const deliveryReaders = { webhook: readDelivery, app: readAppDelivery }
export type DeliveryReaders = typeof deliveryReaders

function appEventOf({ event, verdict }: ReadDelivery, { headers, body }: InboundDelivery): AppEvent | undefined {
  const isPush = verdict.kind === 'push'
  if (!isPush && !(verdict.kind === 'ignored' && aboutInstallations.includes(event))) return undefined
  const payload = appPayload.safeParse(payloadOf(headers['content-type'], body))
  if (!payload.success) return undefined
  const { action, installation, repository, repositories_removed: removed } = payload.data
  const installationId = installation.id
  if (isPush) return repository && { kind: 'push', installationId, repositoryId: repository.id }
  if (event === 'installation') return action === 'deleted' ? { kind: 'removed', installationId } : undefined
  if (!removed?.length) return undefined
  return { kind: 'narrowed', installationId, repositoryIds: removed.map(({ id }) => id) }
}

const numbered = z.object({ id: z.int() })

const appPayload = z.object({
  action: z.string().optional(),
  installation: numbered,
  repository: numbered.optional(),
  repositories_removed: z.array(numbered).optional(),
})
