/** How long answers are cached, in seconds. */
export const cachedSeconds = {
  /** Points of metrics: half the interval between two points (contract 4.14). */
  metrics: 150,
  /** The usage of an account's blob storage (contract 7.41). */
  blobStats: 60,
  /** Snapshots of an account: a caller that polls without pause stays within the limit of misses. */
  accountSnapshots: 20,
  /** What an application is deployed from, unless a change is announced (contract 6.4). */
  deploySources: 300,
  /** Whether names of a domain lead anywhere on this machine (contract 12.5). */
  databaseNames: 60,
  /** The DNS records of a custom domain (contract 4.28). */
  dnsRecords: 30,
  /** The state of the platform (contract 8.7). */
  serviceStatus: 300,
  /** The same while something is wrong. */
  serviceTrouble: 15,
} as const
