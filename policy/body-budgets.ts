import { KiB, MiB } from '../lib/bytes.ts'

/** Memory of a process that arriving bodies may use, in bytes. */
export interface BodyBudgetTerms {
  /** All bodies together. */
  bytes: number
  /** Max of one account, or of one address. */
  share: number
}

/** Bytes of each body that do not count, so that large bodies never delay small ones. */
export const freeBodyBytes = MiB

/** Max size of a JSON body: of most endpoints, and of those that take more. Larger ones are 413, whatever a form may carry. */
export const jsonBodyBytes = { most: MiB, variables: 8 * MiB, file: 64 * MiB } as const

/** Max size of one delivery of a git provider. */
export const maxDeliveryBytes = 25 * MiB

/**
 * JSON of more bytes and values is dense: it is parsed in a thread of its own, and has at most `maxValues` unless it is a delivery. Up to
 * these it takes less than 10 ms of a core, whatever it contains. So many numbers of a file's list cost as much as another value.
 */
export const denseJson = { bytes: 64 * KiB, values: 5000, bytesPerValue: 20, maxValues: 20_000 } as const

/** Above this size a delivery is parsed in a thread of its own: 1 MB of empty lists takes as long as hundreds of pushes. */
export const parsedAtOnceBytes = 256 * KiB

/** A webhook whose bucket is empty is still asked about smaller deliveries: one of them may be a repeated one, which is free. */
export const smallDeliveryBytes = 64 * KiB

/** Max values of the JSON of a large delivery: the thread that parses it has its memory for that. */
export const maxDeliveryValues = 1_000_000

export const bodyBudgets = {
  /** JSON, from the first byte until the request is handled. */
  json: { bytes: 256 * MiB, share: 64 * MiB },
  /** XML of the S3 wire, framed or not. */
  documents: { bytes: 64 * MiB, share: 16 * MiB },
  webhooks: { bytes: 4 * maxDeliveryBytes, share: maxDeliveryBytes },
  /** Separate, because the address is public: large bodies of strangers must not delay other webhooks. */
  gitApp: { bytes: 2 * maxDeliveryBytes, share: maxDeliveryBytes },
} as const satisfies Record<string, BodyBudgetTerms>

/** A slower client is taken for one that only holds a connection. */
export const minPace = { bytesPerSecond: 8 * KiB, overSeconds: 10 } as const

/** Limits of a form apart from its file: bytes in total, and seconds before and after the file. */
export const formExtra = { bytes: MiB, seconds: 30 } as const

/** Timeouts of the object store after a body has arrived, and after its upload was cancelled, in seconds. */
export const storeSeconds = { afterBody: 60, afterCancel: 5 } as const

/**
 * Max large deliveries with a wrong signature of one sender; past it large deliveries are refused for the rest of the window. Small ones
 * pass, because they are cheap and because anyone can make a provider send wrongly signed deliveries from its usual addresses.
 */
export const unsignedDeliveries = { allow: 20, perSeconds: 60 } as const

/**
 * Max deliveries of one owner that need a thread, in one process; past it they are refused for the rest of the window. A push to a shared
 * repository may be one for each application.
 */
export const largeDeliveries = { allow: 100, perSeconds: 600 } as const
