/** What a git provider is answered: one line of text, whose first word says what became of the push (contract 6.8). */
export interface WebhookReply {
  status: number
  text: string
}

export interface QueuedPush {
  deploymentId: string
  commit: string
  branch: string
  /** 1 = next. */
  position: number
}

/** Nothing was deployed, whatever the reason; only 200 means that a deploy is stored. */
export const verdictReply = (
  kind: 'ignored' | 'skipped' | 'refused',
  status: number,
  reason: string,
): WebhookReply => ({
  status,
  text: `${kind}: ${reason}; nothing was deployed`,
})

/** What is said of a delivery that is not signed with the secret of its webhook. */
export const unsignedVerdict = {
  kind: 'refused',
  status: 401,
  reason: 'the signature is missing or wrong',
} as const

export const queuedReply = ({ deploymentId, commit, branch, position }: QueuedPush): WebhookReply => ({
  status: 200,
  text: `queued: deployment ${deploymentId} of commit ${commit.slice(0, 7)} on ${branch}, place ${position} in the queue`,
})

export const duplicateReply = (deploymentId: string): WebhookReply => ({
  status: 200,
  text: `duplicate: this delivery is deployment ${deploymentId} already; nothing new was queued`,
})

/** Malformed, unknown and removed addresses and deleted applications; the last three are not told apart. */
export const malformedReply = verdictReply('refused', 400, 'the address is malformed')
export const unknownReply = verdictReply('refused', 404, 'there is no such webhook')

/** As a delivery is listed that came while as many deploys as may wait did; its sender reads KEEP_CALM. */
export const fullReply = verdictReply('refused', 429, 'too many deploys of this application wait already')

export const unavailableReply: WebhookReply = {
  status: 503,
  text: 'unavailable: the push could not be stored; nothing was deployed. Redeliver it or push again',
}
