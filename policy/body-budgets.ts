import { KiB, MiB } from '../lib/bytes.ts'

/** What bodies may hold of a process's memory while they arrive, in bytes. */
export interface BodyBudgetTerms {
  /** All bodies together. */
  bytes: number
  /** The most that one account holds of it, or one address. */
  share: number
}

/** So much of each body passes beside the budget: nobody's large bodies hold up a small one. */
export const freeBodyBytes = MiB

/** Of one delivery of a git provider. */
export const maxDeliveryBytes = 25 * MiB

export const bodyBudgets = {
  /** JSON, from its first byte until it was acted upon. */
  json: { bytes: 256 * MiB, share: 64 * MiB },
  webhooks: { bytes: 4 * maxDeliveryBytes, share: maxDeliveryBytes },
  /** Its own: everyone knows the address, so strangers with large bodies must not hold up the webhooks of others. */
  gitApp: { bytes: 2 * maxDeliveryBytes, share: maxDeliveryBytes },
} as const satisfies Record<string, BodyBudgetTerms>

/** Slower than this is a client that holds a connection, not one that sends. */
export const minPace = { bytesPerSecond: 8 * KiB, overSeconds: 10 } as const

/** What a form may hold in addition to its file: bytes in all, and how long it may take before and after the file. */
export const formExtra = { bytes: MiB, seconds: 30 } as const

/** How long the object store may take once a body has arrived whole, and once its upload was given up, in seconds. */
export const storeSeconds = { afterBody: 60, afterCancel: 5 } as const

/**
 * Who has sent more large deliveries of a wrong signature than this sends no large ones for the rest of the time. Small ones pass, and
 * cost nothing: at a provider everybody can have something signed wrongly, from the address that signs well too.
 */
export const unsignedDeliveries = { allow: 20, perSeconds: 60 } as const
