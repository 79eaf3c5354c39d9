/** The reply to a git provider: one line of text, whose first word is the outcome of the push (contract 6.8). */
export interface WebhookReply {
  status: number
  text: string
}

/** The reply when nothing was deployed, for any reason; only 200 means that a deploy is stored. */
export const verdictReply = (
  kind: 'ignored' | 'skipped' | 'refused',
  status: number,
  reason: string,
): WebhookReply => ({
  status,
  text: `${kind}: ${reason}; nothing was deployed`,
})

/** The verdict on a delivery that is not signed with the secret of its webhook. */
export const unsignedVerdict = {
  kind: 'refused',
  status: 401,
  reason: 'the signature is missing or wrong',
} as const

/** The reply to a stored push: its position in the queue (1 = next), known only once it is stored, goes between the two texts. */
export interface QueuedReply {
  status: number
  aroundPlace: readonly [before: string, after: string]
}

export const queuedReply = (push: { deploymentId: string; commit: string; branch: string }): QueuedReply => ({
  status: 200,
  aroundPlace: [
    `queued: deployment ${push.deploymentId} of commit ${push.commit.slice(0, 7)} on ${push.branch}, position `,
    ' in the queue',
  ],
})

export const duplicateReply = (deploymentId: string): WebhookReply => ({
  status: 200,
  text: `duplicate: this delivery is deployment ${deploymentId} already; nothing new was queued`,
})

/** Malformed addresses; and, indistinguishable from each other, unknown and deleted addresses and deleted applications. */
export const malformedReply = verdictReply('refused', 400, 'the address is malformed')
export const unknownReply = verdictReply('refused', 404, 'there is no such webhook')

/** For the list of deliveries: the queue of deploys was full. The sender's answer is KEEP_CALM. */
export const fullReply = verdictReply('refused', 429, 'too many deploys of this application wait already')

export const unavailableReply: WebhookReply = {
  status: 503,
  text: 'unavailable: the push could not be stored; nothing was deployed. Redeliver it or push again',
}
