/**
 * Connections of one worker of the proxy, which has 16,384 descriptors, and the number of application requests as a share of it: each
 * request takes two connections, the visitor's and the application's, so a quarter stays for the platform's own surfaces.
 */
export const proxyConnections = { ofWorker: 12_288, applicationShare: 3 / 8 } as const

/** Max concurrent application requests of a worker with this many connections. */
export const applicationRoom = (connections: number): number =>
  Math.max(1, Math.floor(connections * proxyConnections.applicationShare))
