/**
 * Connections of one worker of the proxy, which has 16,384 descriptors, and the share of their number that may be requests of
 * applications: each takes two, its visitor's and its application's, so a quarter stays for the platform's own surfaces.
 */
export const proxyConnections = { ofWorker: 12_288, applicationShare: 3 / 8 } as const

/** Requests that a worker with so many connections passes on to applications at the same time. */
export const applicationRoom = (connections: number): number =>
  Math.max(1, Math.floor(connections * proxyConnections.applicationShare))
