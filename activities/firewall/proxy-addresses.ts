import { lookup } from 'node:dns/promises'
import { isIPv4 } from 'node:net'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import type { BuildProxy } from '../../policy/hosts/build-settings.ts'

interface ProxyAddress {
  address: string
  port: number
}

export interface ProxyAddresses {
  /** Looks the names up. Resolves after 5 s at the latest; a failure retains what is known. */
  refresh(): Promise<void>
  /** All IPv4 addresses that the proxies of builds had; starts another look-up when the last one was a minute ago. */
  known(): ProxyAddress[]
}

type Resolve = (name: string) => Promise<{ address: string }[]>

const systemResolve: Resolve = name => lookup(name, { family: 4, all: true })
const refreshMs = 60_000
const lookupMs = 5000
/** A name whose answers rotate has all of them opened, up to so many. */
const maxAddresses = 16

/** Addresses of the proxies of builds, which the firewall opens to builds even if they are private. */
export function proxyAddresses(proxy: BuildProxy | null, resolve: Resolve = systemResolve): ProxyAddresses {
  const targets = [proxy?.http, proxy?.https].flatMap(url => (url ? targetOf(url) : []))
  const found = new Map<string, ProxyAddress>()
  let refreshedAt = Number.NEGATIVE_INFINITY
  const add = (address: string, port: number) => {
    if (isIPv4(address) && !address.startsWith('127.') && found.size < maxAddresses)
      found.set(`${address}:${port}`, { address, port })
  }
  for (const { hostname, port } of targets) add(hostname, port)
  const names = targets.filter(({ hostname }) => !isIPv4(hostname))

  async function look(): Promise<void> {
    refreshedAt = performance.now()
    await Promise.all(
      names.map(async ({ hostname, port }) => {
        for (const { address } of await resolve(hostname).catch(() => [])) add(address, port)
      }),
    )
  }

  const tooLate = () => new Error('names of proxies are not resolved yet')
  return {
    refresh: () => withTimeout(look(), lookupMs, tooLate).catch(ignoreError('the next look-up is within a minute')),
    known() {
      if (names.length > 0 && performance.now() - refreshedAt > refreshMs) void look()
      return [...found.values()].sort((a, b) => (`${a.address}:${a.port}` < `${b.address}:${b.port}` ? -1 : 1))
    },
  }
}

function targetOf(url: string): { hostname: string; port: number }[] {
  if (!URL.canParse(url)) return []
  const { hostname, port, protocol } = new URL(url)
  return [{ hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) }]
}
