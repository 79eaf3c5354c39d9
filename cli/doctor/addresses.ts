import { accepts } from '../services/proxy.ts'

/** Host and port of an address; where it names no port, the usual one of its protocol. */
export function hostAndPort(url: string, usual = url.startsWith('https:') ? 443 : 80): string {
  const { hostname, port } = new URL(url)
  return `${hostname}:${port || usual}`
}

/** Whether a connection to `host:port` is accepted within a second. */
export function listens(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`)
  return accepts(hostname.replace(/^\[|\]$/g, ''), Number(port)).then(
    () => true,
    () => false,
  )
}
