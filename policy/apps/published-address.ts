import { createHash } from 'node:crypto'

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

/** Ports of applications' own addresses: of those from which engines choose, because a program that listens on all addresses cannot have the same. */
const firstPort = 33_000
const ports = 27_000

/**
 * The port at which a release is published at its application's own address, so that a restart changes no route; undefined at an address
 * that applications share, where the engine chooses. Releases that run concurrently have different ports. So have, nearly always,
 * applications of two installations on one machine whose addresses are the same.
 */
export function ownPort(release: {
  appId: string
  number: number
  uid: number
  hostAddress: string
}): number | undefined {
  const { appId, number, uid, hostAddress } = release
  if (hostAddress === loopback || hostAddress !== ownAddress(loopback, uid)) return undefined
  const offset = createHash('sha256').update(appId).digest().readUInt16BE()
  return firstPort + ((offset + number) % ports)
}
