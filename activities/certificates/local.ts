import { authorityRules } from '../../policy/domains/authority-rules.ts'
import { withoutWildcard } from '../../policy/domains/records.ts'
import { type Authority, certifyKey } from './authority.ts'
import { AuthorityError, type CertificateAuthority, type Order } from './port.ts'
import { readRequest } from './request.ts'

const scheme = 'berth-local:'

/**
 * The installation's own authority, for names whose visitors trust its root: closed networks and development. It demands no proof: every
 * order is valid immediately, and its url says all of it, so that nothing is stored until the certificate is.
 */
export function localAuthority(
  root: () => Promise<Authority>,
  days: number = authorityRules.localDays,
): CertificateAuthority {
  const look = async (url: string): Promise<Order> => {
    const authorizations = hostnamesOf(url).map(name => ({
      hostname: withoutWildcard(name),
      isWildcard: name.startsWith('*.'),
      status: 'valid' as const,
      challenges: [],
    }))
    return { url, status: 'valid', expiresAt: null, authorizations, problem: null }
  }
  /** The key of a CSR for exactly the names of the order. */
  const keyFor = async (url: string, csr: Buffer) => {
    const hostnames = hostnamesOf(url)
    const request = await readRequest(csr)
    if (!request || request.names.toSorted().join() !== hostnames.toSorted().join())
      throw new AuthorityError('badCSR', 'The CSR is not one for the names of the order.')
    return { hostnames, publicKey: request.publicKey }
  }
  return {
    order: ({ hostnames }) => look(scheme + Buffer.from(JSON.stringify(hostnames)).toString('base64url')),
    look,
    answer: async url => void hostnamesOf(url),
    finalize: async (url, csr) => void (await keyFor(url, csr)),
    async collect(url, csr) {
      const { hostnames, publicKey } = await keyFor(url, csr)
      const issuer = await root()
      const request = { kind: 'server', commonName: hostnames[0]!, names: hostnames, addresses: [], days } as const
      const { certificate } = await certifyKey(issuer, { ...request, publicKey })
      return certificate + issuer.certificate
    },
    renewal: async () => null,
    thumbprint: async () => null,
    caaNames: async () => [],
  }
}

function hostnamesOf(url: string): string[] {
  try {
    const names: unknown = JSON.parse(Buffer.from(url.slice(scheme.length), 'base64url').toString())
    if (
      url.startsWith(scheme) &&
      Array.isArray(names) &&
      names.length > 0 &&
      names.every(name => typeof name === 'string')
    )
      return names
  } catch {
    // not an url of this authority
  }
  throw new AuthorityError('notFound', 'This authority has no such order.')
}
