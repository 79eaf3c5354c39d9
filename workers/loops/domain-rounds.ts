import { isDeepStrictEqual } from 'node:util'
import {
  CertificateRefused,
  type Edge,
  NameRefused,
  type ServedName,
  type WellKnownAnswers,
} from '../../activities/edge/port.ts'
import type { Db } from '../../db/database.ts'
import { listCertificateVersions, openCertificate, type ServedCertificate } from '../../db/domains/certificates.ts'
import { domainChangesSince } from '../../db/domains/domain-changes.ts'
import { listServedDomains, type ServedDomain } from '../../db/domains/domain-lists.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { SealKeys } from '../../policy/seal.ts'

export interface DomainRoundsOptions {
  db: Db
  keys: SealKeys
  edge: Edge
  appsDomain: string
  /** Certificates of the operator's own files, which precede those that were ordered. */
  ownCertificates?: () => Promise<ServedCertificate[]>
  /** What the proxy itself answers to authorities and probes. */
  answers: () => Promise<WellKnownAnswers>
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

/** A name or certificate that the proxy refused. */
export interface DomainRefusal {
  hostname: string
  why: string
}

/**
 * Keeps custom names and certificates of one proxy as Postgres has them: what has changed since the last round, and everything every few
 * seconds. One that the proxy refuses does not delay others.
 */
export class DomainRounds {
  readonly #options: DomainRoundsOptions
  readonly #now: () => number
  #mark: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY
  #refused: DomainRefusal[] = []
  /** The run of the proxy that has them, and its answers. */
  #answered = ''

  constructor(options: DomainRoundsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Runs one round; rejects when the proxy or Postgres is down. */
  async round(): Promise<{ changed: number; refused: DomainRefusal[] }> {
    const { db } = this.#options
    const began = this.#now()
    const { mark, changed } = await domainChangesSince(db, this.#mark)
    const everything = changed === null || began - this.#comparedAt >= roundSeconds.domains * 1000
    const hostnames = everything ? undefined : [...new Set([...changed, ...this.#refused.map(one => one.hostname)])]
    await this.#setAnswers()
    if (hostnames?.length === 0) {
      this.#mark = mark
      return { changed: 0, refused: [] }
    }
    const refused: DomainRefusal[] = []
    // Certificates first: a name must not send clients to https before it has one, and lose it after.
    const certificates = await this.#syncCertificates(hostnames, refused)
    const names = await this.#syncNames(hostnames, refused)
    this.#mark = mark
    this.#refused = refused
    if (everything) this.#comparedAt = began
    return { changed: certificates + names, refused }
  }

  async #setAnswers(): Promise<void> {
    const { edge } = this.#options
    const answers = await this.#options.answers()
    const wanted = `${(await edge.standing()).run} ${JSON.stringify(answers)}`
    if (wanted === this.#answered) return
    await edge.setAnswers(answers)
    this.#answered = wanted
  }

  async #syncCertificates(hostnames: readonly string[] | undefined, refused: DomainRefusal[]): Promise<number> {
    const { db, keys, edge, ownCertificates = async () => [] } = this.#options
    const own = new Map((await ownCertificates()).map(one => [one.hostname, one]))
    const wanted = new Map((await listCertificateVersions(db, hostnames)).map(one => [one.hostname, one.version]))
    for (const { hostname, version } of own.values())
      if (!hostnames || hostnames.includes(hostname)) wanted.set(hostname, version)
    const present = new Map((await edge.listCertificates()).map(({ host, version }) => [host, version]))
    let changed = 0
    for (const [hostname, version] of wanted) {
      if (present.get(hostname) === version) continue
      const certificate = own.get(hostname) ?? (await openCertificate(db, keys, hostname))
      if (!certificate) continue // released in between
      const { chain, privateKey } = certificate
      const set = () => edge.setCertificate({ host: hostname, version: certificate.version, chain, key: privateKey })
      if (await attempt(hostname, set, refused)) changed++
    }
    for (const hostname of present.keys())
      if (!wanted.has(hostname) && (!hostnames || hostnames.includes(hostname))) {
        await edge.removeCertificate(hostname)
        changed++
      }
    return changed
  }

  async #syncNames(hostnames: readonly string[] | undefined, refused: DomainRefusal[]): Promise<number> {
    const { db, edge } = this.#options
    const wanted = (await listServedDomains(db, hostnames)).map(domain => this.#nameOf(domain))
    const present = new Map((await edge.listNames()).map(name => [name.host, name]))
    let changed = 0
    for (const name of wanted) {
      const isSame = isDeepStrictEqual(present.get(name.host), name)
      if (!isSame && (await attempt(name.host, () => edge.setName(name), refused))) changed++
    }
    const names = new Set(wanted.map(({ host }) => host))
    for (const hostname of present.keys())
      if (!names.has(hostname) && (!hostnames || hostnames.includes(hostname))) {
        await edge.removeName(hostname)
        changed++
      }
    return changed
  }

  #nameOf({ hostname, members: apps, secured }: ServedDomain): ServedName {
    const members = apps.map(({ id, subdomain }) => `${subdomain}.${this.#options.appsDomain}@${id}`)
    return { host: hostname, members, https: secured ? 'redirect' : 'off' }
  }
}

async function attempt(hostname: string, work: () => Promise<void>, refused: DomainRefusal[]): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (!(error instanceof CertificateRefused || error instanceof NameRefused)) throw error
    refused.push({ hostname, why: error.message })
    return false
  }
}
