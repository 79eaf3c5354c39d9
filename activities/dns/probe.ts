import { request } from 'node:http'
import { AddressSet, isPublicAddress, pinnedLookup } from '../../lib/addresses.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { readCapped } from '../../lib/read-capped.ts'
import { probeRules } from '../../policy/domains/dns-rules.ts'
import { type Dns, dnsFor } from './port.ts'

/** What a host name answers over http, or in words why there is no answer. */
type Read = { body: string } | { failed: string }

/** Reads one path of a host name as an authority would, for an account (`Dns`). It never rejects. */
export type ReadHost = (hostname: string, path: string, asker?: string) => Promise<Read>

export interface ProbeOptions {
  dns: Dns
  /** Addresses and networks of the proxy; others are contacted only if they are public. */
  publicAddresses: readonly string[]
  port: number
}

/**
 * Reads host names that customers chose, so a request reaches no private network: all addresses of the name are checked, and the connection
 * goes to one of those. Redirects are not followed.
 */
export function hostReader({ dns, publicAddresses, port }: ProbeOptions): ReadHost {
  const own = new AddressSet(publicAddresses)
  return async (hostname, path, asker) => {
    const answers = await addressesOf(asker === undefined ? dns : dnsFor(dns, asker), hostname)
    if ('failed' in answers) return answers
    const closed = answers.addresses.find(address => !own.has(address) && !isPublicAddress(address))
    if (closed !== undefined)
      return {
        failed: `${hostname} leads to ${closed}, which is not on the public network. The platform's operator can list it (EDGE_PUBLIC_ADDRESSES).`,
      }
    try {
      return await read({ hostname, path, port, addresses: answers.addresses.slice(0, probeRules.addresses) })
    } catch (error) {
      return { failed: `${hostname} did not answer over http: ${reasonOf(error)}.` }
    }
  }
}

/** All addresses of a name, or in words why there are none. */
export async function addressesOf(dns: Dns, hostname: string): Promise<{ addresses: string[] } | { failed: string }> {
  const answers = await Promise.all([dns.look(hostname, 'A'), dns.look(hostname, 'AAAA')])
  const addresses = answers.flatMap(answer => ('records' in answer ? answer.records : []))
  if (addresses.length > 0) return { addresses }
  const failed = answers.flatMap(answer => ('failed' in answer ? [answer.failed] : []))[0]
  return { failed: failed ? `The addresses of ${hostname} are not known: ${failed}.` : `${hostname} has no address.` }
}

async function read(to: { hostname: string; path: string; port: number; addresses: string[] }): Promise<Read> {
  const { hostname, path, port, addresses } = to
  const signal = deadlineSignal(probeRules.ms)
  return new Promise((resolve, reject) => {
    const sent = request({
      ...{ hostname, port, path, signal, agent: false, lookup: pinnedLookup(addresses) },
      headers: { host: port === 80 ? hostname : `${hostname}:${port}`, 'user-agent': 'berth', accept: '*/*' },
    })
    sent.once('error', reject)
    sent.once('response', async answer => {
      try {
        if (answer.statusCode !== 200) return resolve({ failed: `${hostname} answered HTTP ${answer.statusCode}.` })
        const body = await readCapped(answer, probeRules.bodyBytes)
        resolve(body ? { body: body.toString('latin1') } : { failed: `${hostname} answered with another page.` })
      } catch (error) {
        reject(error)
      } finally {
        sent.destroy()
      }
    })
    sent.end()
  })
}

const causes: Record<string, string> = {
  ABORT_ERR: 'no answer in time',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  EHOSTUNREACH: 'the address cannot be reached',
  ENETUNREACH: 'the address cannot be reached',
  ETIMEDOUT: 'no answer in time',
}

function reasonOf(error: unknown): string {
  const { code = '', name } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError') return 'no answer in time'
  return causes[code] ?? (/^HPE_/.test(code) ? 'it does not speak http' : code || 'the connection failed')
}
