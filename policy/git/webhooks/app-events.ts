import { z } from 'zod'
import { payloadOf, type ReadDelivery } from './deliveries.ts'

/** Events of the git provider for the platform's app that are handled. */
export type AppEvent =
  | { kind: 'push'; installationId: number; repositoryId: number }
  /** The app was removed: no repository is covered any more. */
  | { kind: 'removed'; installationId: number }
  /** Some repositories are no longer covered. */
  | { kind: 'narrowed'; installationId: number; repositoryIds: number[] }

const aboutInstallations = ['installation', 'installation_repositories']

/** The event of a delivery; undefined for other events and for refused deliveries, above all those with a wrong signature. Pure. */
export function readAppEvent(
  { event, verdict }: ReadDelivery,
  contentType: string | undefined,
  body: Buffer,
): AppEvent | undefined {
  const isPush = verdict.kind === 'push'
  if (!isPush && !(verdict.kind === 'ignored' && aboutInstallations.includes(event))) return undefined
  const payload = appPayload.safeParse(payloadOf(contentType, body))
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
