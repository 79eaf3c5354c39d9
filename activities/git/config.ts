import { tokenUser } from '../../policy/git/git-source.ts'
import { addressOf, type HostProxy } from '../../policy/hosts/proxy-address.ts'
import type { DiscoveredRepository } from './discovery.ts'

/** Descriptors at which git's helpers read the user name and the password: of the server, and of the proxy. */
export const credentialDescriptors = { server: 3, proxy: 4 } as const

/**
 * The only configuration that git uses: it ignores those of the machine, the user and the repository.
 * It contains no password.
 */
export function gitConfig(server: DiscoveredRepository, caBundle: string | null, timeoutSeconds: number): string {
  const { proxy } = server
  const pinned = server.addresses.map(address => (address.includes(':') ? `[${address}]` : address)).join(',')
  return text({
    core: {
      repositoryFormatVersion: 0,
      bare: true,
      hooksPath: '/dev/null',
      attributesFile: '/dev/null',
      excludesFile: '/dev/null',
      symlinks: true,
      logAllRefUpdates: false,
      fsmonitor: false,
      // Streams large files, so that their size does not matter for memory.
      bigFileThreshold: '8m',
      packedGitWindowSize: '32m',
      packedGitLimit: '256m',
    },
    protocol: { version: 2 },
    http: {
      followRedirects: false,
      ...(proxy ? throughProxy(proxy, caBundle) : { proxy: '' }),
      // A literal address is never resolved, and a proxy resolves names itself.
      ...(proxy || server.addresses[0] === server.host
        ? {}
        : { curloptResolve: `${server.host}:${server.port}:${pinned}` }),
      ...(caBundle === null ? {} : { sslCAInfo: caBundle }),
      // Ends a fetch even if the process that watches it was killed.
      lowSpeedLimit: 1,
      lowSpeedTime: timeoutSeconds,
    },
    // By their addresses: neither the server nor the proxy gets the password of the other one.
    credential: { helper: '' },
    ...(server.token !== null && {
      [`credential "${new URL(server.url).origin}"`]: { helper: helper(credentialDescriptors.server) },
    }),
    ...(proxy?.credentials && {
      [`credential "${addressOf(proxy)}"`]: { helper: helper(credentialDescriptors.proxy) },
    }),
    // Everything stays in one pack, whose size can be watched.
    fetch: { unpackLimit: 1, writeCommitGraph: false },
    transfer: { unpackLimit: 1, bundleURI: false },
    submodule: { recurse: false },
    pack: { threads: 1 },
    checkout: { workers: 1 },
    gc: { auto: 0 },
    maintenance: { auto: false },
  })
}

/** Input of the credential helper; only ever written to a pipe. */
export function credentialText(server: DiscoveredRepository): string | null {
  return server.token === null ? null : `username=${tokenUser(server)}\npassword=${server.token}\n`
}

/** Input of the helper for the proxy; only ever written to a pipe. */
export function proxyCredentialText({ proxy }: DiscoveredRepository): string | null {
  if (!proxy?.credentials) return null
  return `username=${proxy.credentials.user}\npassword=${proxy.credentials.password}\n`
}

/** Bytes as they were committed: no end-of-line or encoding conversion, no keyword, no filter such as large-file storage. */
export const rawAttributes = '* -text !eol !ident !filter !working-tree-encoding\n'

const helper = (descriptor: number) => `!f() { test "$1" = get && cat <&${descriptor}; }; f`

/** Git asks its helper only for the password of a user that it knows. */
function throughProxy(proxy: HostProxy, caBundle: string | null) {
  const { protocol, hostname, port, credentials } = proxy
  const user = credentials ? `${encodeURIComponent(credentials.user)}@` : ''
  return {
    proxy: `${protocol}//${user}${hostname}:${port}`,
    // Without it the first request of each connection has no credentials.
    ...(credentials && { proxyAuthMethod: 'basic' }),
    ...(caBundle === null || protocol === 'http:' ? {} : { proxySSLCAInfo: caBundle }),
  }
}

type Sections = Record<string, Record<string, string | number | boolean>>

function text(sections: Sections): string {
  const quoted = (value: string | number | boolean) => `"${String(value).replace(/[\\"]/g, '\\$&')}"`
  return Object.entries(sections)
    .map(
      ([name, values]) =>
        `[${name}]\n${Object.entries(values)
          .map(([key, value]) => `\t${key} = ${quoted(value)}\n`)
          .join('')}`,
    )
    .join('')
}
