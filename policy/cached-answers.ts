/** How long an answer is given again before it is worked out anew, in seconds. */
export const cachedSeconds = {
  /** Points of metrics: half the time until there is another one (contract 4.14). */
  metrics: 150,
  /** The usage of an account's blob storage (contract 7.41). */
  blobStats: 60,
  /** Snapshots of an account: who asks without pause stays within the limit of misses. */
  accountSnapshots: 20,
  /** What an application is deployed from, until a change is announced (contract 6.4). */
  deploySources: 300,
  /** The state of the platform (contract 8.7). */
  serviceStatus: 300,
  /** The same while something is wrong. */
  serviceTrouble: 15,
} as const
