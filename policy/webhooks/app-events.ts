import { z } from 'zod'
import { payloadOf, type ReadDelivery } from './deliveries.ts'

/** What the git provider tells the platform's app, as far as it is acted upon. */
export type AppEvent =
  | { kind: 'push'; installationId: number; repositoryId: number }
  /** The app was removed: nothing is covered any more. */
  | { kind: 'removed'; installationId: number }
  /** Some repositories are covered no longer. */
  | { kind: 'narrowed'; installationId: number; repositoryIds: number[] }

/** The event of a delivery whose signature was found good; undefined when it is none of these. Pure. */
export function readAppEvent(
  { event, verdict }: ReadDelivery,
  contentType: string | undefined,
  body: Buffer,
): AppEvent | undefined {
  if (verdict.kind !== 'push' && !['installation', 'installation_repositories'].includes(event)) return undefined
  const found = appPayload.safeParse(payloadOf(contentType, body))
  if (!found.success) return undefined
  const { action, installation, repository, repositories_removed: removed } = found.data
  const installationId = installation.id
  if (verdict.kind === 'push') return repository && { kind: 'push', installationId, repositoryId: repository.id }
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
