/** Bounds of the name server, which anyone on the network may ask. */
export const nameServerRules = {
  /** Larger questions are none. */
  questionBytes: 1232,
  /** Largest datagram of an answer; a client may take less, and none gets more than it says. */
  datagramBytes: 1232,
  /** How long the texts that were read answer questions: strangers' questions must not read rows each, and a new text must not be missed for long. */
  textsMs: 100,
  /** Questions that read rows at the same time; those beyond are not answered, and clients repeat them. */
  atOnce: 50,
  /** Questions that one network (IPv4 /24, IPv6 /56) may ask in a second: over UDP senders can be forged, and must not become targets. */
  perNetworkSecond: 50,
  perSecond: 2000,
  /** Connections in all, how long one may be silent and last, and questions on it. */
  connections: 64,
  idleMs: 5000,
  connectionMs: 20_000,
  perConnection: 100,
  /** Challenges are read once, right after they were written. */
  ttlSeconds: 1,
} as const
