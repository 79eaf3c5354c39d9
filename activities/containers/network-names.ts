import { createHash } from 'node:crypto'
import { labels, type NetworkSpec } from './port.ts'

/*
 * Several hosts and installations share one machine's kernel, so every name of ours there carries its host: what one puts in
 * place neither filters nor removes what is another's.
 */

/** How the bridges of one host's applications begin. Seven characters. */
export const bridgePrefix = (hostId: string): string => `bt${letters(hostId, 5)}`

/** How the bridge of one host's builds begins. Seven characters. */
export const buildBridgePrefix = (hostId: string): string => `bb${letters(hostId, 5)}`

/** Name of a network's bridge: the kernel allows 15 characters. */
export function bridgeName({ name, labels: { [labels.host]: hostId = '', [labels.role]: role } }: NetworkSpec): string {
  return (role === 'build' ? buildBridgePrefix(hostId) : bridgePrefix(hostId)) + letters(name, 8)
}

/** How the firewall chains of one host begin; a chain's name takes 28 characters. */
export function chainName(hostId: string): string {
  return `BERTH-${digest(hostId).slice(0, 8)}`
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

const letters = (text: string, count: number): string =>
  BigInt(`0x${digest(text)}`)
    .toString(36)
    .slice(-count)
