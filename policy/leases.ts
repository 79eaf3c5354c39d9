/** How long leases last after each renewal, in seconds: the leases of a process that dies end after this. */
export const leaseSeconds = {
  /** The slot of an open live stream. */
  liveStream: 60,
  /** The slot of a body in transfer: an upload, or a part of one. */
  body: 60,
  /** Bytes of an account's storage, reserved before they are written. */
  storage: 120,
  /** A snapshot slot of a host: longer than the pause between two attempts. */
  snapshot: 120,
} as const

/** How often a process renews the storage it has leased, in seconds. */
export const storageRenewSeconds = 30
