import { readFile } from 'node:fs/promises'

/** A network that this machine reaches through one of its interfaces. */
export interface Route {
  device: string
  /** As `10.1.2.0/24`. */
  subnet: string
}

/** Bridges of the engine's own networks, Berth's, and other engines'. Those of operators (`br0`, `vmbr0`) carry the machine's own network. */
const containerBridge = /^(docker\w+|br-[0-9a-f]{12}|podman\d+|cni\S*|b[tb][0-9a-z]{13}|berth\S*)$/

/** The routes of this machine but the default one; none where the kernel does not list them. */
export async function routes(): Promise<Route[]> {
  return parseRoutes(await readFile('/proc/net/route', 'utf8').catch(() => ''))
}

/** The networks of containers on this machine. */
export async function containerSubnets(): Promise<string[]> {
  return (await routes()).filter(isContainerBridge).map(({ subnet }) => subnet)
}

/** Whether a route leads to containers on this machine. */
export const isContainerBridge = ({ device }: Pick<Route, 'device'>): boolean => containerBridge.test(device)

/** The text of /proc/net/route. */
export function parseRoutes(text: string): Route[] {
  const address = (hex: string) => Buffer.from(hex, 'hex').reverse().join('.')
  return text
    .split('\n')
    .slice(1)
    .map(line => line.split('\t'))
    .filter(fields => fields.length > 7 && fields[7] !== '00000000')
    .map(fields => ({ device: fields[0]!.trim(), subnet: `${address(fields[1]!)}/${bits(fields[7]!)}` }))
}

function bits(maskHex: string): number {
  return [...Number.parseInt(maskHex, 16).toString(2)].filter(digit => digit === '1').length
}
