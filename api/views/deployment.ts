import type { DeploymentStory } from '../../db/deploys/deployment-history.ts'
import type { DeliveryRow } from '../../db/git/deliveries.ts'

/** DeployEvents of one deployment, oldest first (contract 6.3). */
export const deploymentView = (story: DeploymentStory) =>
  story.events.map(({ state, at, details }) => ({
    id: story.revision,
    deployment_id: story.id,
    operation_id: story.operation_id,
    state,
    date: new Date(at).toISOString(),
    source: story.source,
    branch: details.branch ?? (state === 'clone' ? (story.branch ?? undefined) : undefined),
    files: details.files,
    code: details.code,
    message: details.message,
    superseded_by: details.superseded_by,
    ...(state === 'pending' && story.state === 'pending' ? waiting(story) : {}),
  }))

const waiting = ({ position, waiting_for }: DeploymentStory) => ({
  position: position ?? undefined,
  waiting_for: waiting_for ?? undefined,
})

/** Contract 6.12. */
export const deliveryView = (row: DeliveryRow) => ({
  id: row.id,
  delivery_id: row.delivery_id,
  provider: row.provider,
  event: row.event,
  branch: row.branch,
  commit: row.commit,
  received_at: row.received_at.toISOString(),
  verdict: row.verdict,
  reply: { status: row.reply_status, text: row.reply_text },
  deployment_id: row.deployment_id,
  superseded_by: row.superseded_by,
})
