/** Default address of a host that publishes ports to its own machine only. */
const loopback = '127.0.0.1'
/** Number of addresses 127.x.y.z, without the last, which is for broadcasts. */
const loopbackAddresses = 2 ** 24 - 1

/**
 * The address at which the containers of one application publish their ports. A host that publishes on loopback has one address for each
 * application, derived from its uid. No other process listens there, so the kernel refuses a stale route to a port that was since assigned
 * to another application. Every other host has one address for all, and so has loopback on systems with a single loopback address.
 */
export function ownAddress(hostAddress: string, uid: number, platform: string = process.platform): string {
  if (hostAddress !== loopback || platform !== 'linux' || uid >= loopbackAddresses) return hostAddress
  return `127.${uid >> 16}.${(uid >> 8) & 255}.${uid & 255}`
}
