import { createHash } from 'node:crypto'
import { labels, type NetworkSpec } from './port.ts'

/*
 * Several hosts and installations share one machine's kernel, so each of our names there contains its host: none filters or
 * removes what belongs to another.
 */

/** Prefix of the bridges of one host's applications, seven characters. */
export const bridgePrefix = (hostId: string): string => `bt${letters(hostId, 5)}`

/** Prefix of the bridge of one host's builds, seven characters. */
export const buildBridgePrefix = (hostId: string): string => `bb${letters(hostId, 5)}`

/** Name of a network's bridge: the kernel allows 15 characters. */
export function bridgeName({ name, labels: { [labels.host]: hostId = '', [labels.role]: role } }: NetworkSpec): string {
  return (role === 'build' ? buildBridgePrefix(hostId) : bridgePrefix(hostId)) + letters(name, 8)
}

/** Prefix of the firewall chains of one host; a chain's name has at most 28 characters. */
export function chainName(hostId: string): string {
  return `BERTH-${digest(hostId).slice(0, 8)}`
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

const letters = (text: string, count: number): string =>
  BigInt(`0x${digest(text)}`)
    .toString(36)
    .slice(-count)
