/** How long what a process holds stays its own after each renewal, in seconds. A process that dies gives it back by this. */
export const leaseSeconds = {
  /** The place of an open live stream. */
  liveStream: 60,
  /** The place of a body that is on its way: an upload, or a part of one. */
  body: 60,
  /** Bytes of an account's storage, taken before they are written. */
  storage: 120,
  /** The one place for snapshots of a host: longer than the pause between two attempts. */
  snapshot: 120,
} as const

/** How often a process renews the storage it has leased, in seconds. */
export const storageRenewSeconds = 30
