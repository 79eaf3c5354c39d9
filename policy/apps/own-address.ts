/** Where a host that publishes to its own machine only does so when nothing else is said. */
const loopback = '127.0.0.1'
/** So many addresses 127.x.y.z there are; the last is for broadcasts. */
const ownAddresses = 2 ** 24 - 1

/**
 * The address at which the containers of one application publish their ports. A host that publishes on loopback has one for each
 * application, after its user: nobody else ever listens there, so a route to a port that has since been dealt to another application
 * is refused by the kernel. Every other host has one address for all, and so has loopback on systems that give it no more.
 */
export function ownAddress(hostAddress: string, uid: number, platform: string = process.platform): string {
  if (hostAddress !== loopback || platform !== 'linux' || uid >= ownAddresses) return hostAddress
  return `127.${uid >> 16}.${(uid >> 8) & 255}.${uid & 255}`
}
