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
    return equalize({
      ...{ hostnames, refused, wanted },
      list: async () => new Map((await edge.listCertificates()).map(({ host, version }) => [host, version])),
      async set(hostname) {
        const certificate = own.get(hostname) ?? (await openCertificate(db, keys, hostname))
        if (!certificate) return // released in between
        const { version, chain, privateKey: key } = certificate
        await edge.setCertificate({ host: hostname, version, chain, key })
      },
      remove: hostname => edge.removeCertificate(hostname),
    })
  }

  async #syncNames(hostnames: readonly string[] | undefined, refused: DomainRefusal[]): Promise<number> {
    const { db, edge } = this.#options
    const names = (await listServedDomains(db, hostnames)).map(domain => this.#nameOf(domain))
    return equalize({
      ...{ hostnames, refused, wanted: new Map(names.map(name => [name.host, name])) },
      list: async () => new Map((await edge.listNames()).map(name => [name.host, name])),
      set: (_, name) => edge.setName(name),
      remove: hostname => edge.removeName(hostname),
    })
  }

  #nameOf({ hostname, members: apps, secured }: ServedDomain): ServedName {
    const members = apps.map(({ id, subdomain }) => `${subdomain}.${this.#options.appsDomain}@${id}`)
    return { host: hostname, members, https: secured ? 'redirect' : 'off' }
  }
}

interface Table<Entry> {
  /** Those that have changed; undefined = all are compared with what the proxy has. */
  hostnames: readonly string[] | undefined
  wanted: ReadonlyMap<string, Entry>
  list(): Promise<ReadonlyMap<string, Entry>>
  set(hostname: string, entry: Entry): Promise<void>
  remove(hostname: string): Promise<void>
  /** Receives what the proxy refuses. */
  refused: DomainRefusal[]
}

/** Makes a table of the proxy equal to what is wanted; resolves to the number of changes. Lists the table only if all of it is compared. */
async function equalize<Entry>(table: Table<Entry>): Promise<number> {
  const { hostnames, wanted, list, set, remove, refused } = table
  const present = hostnames ? new Map<string, Entry>() : await list()
  let changed = 0
  for (const [hostname, entry] of wanted)
    if (
      !isDeepStrictEqual(present.get(hostname), entry) &&
      (await attempt(hostname, () => set(hostname, entry), refused))
    )
      changed++
  for (const hostname of hostnames ?? present.keys())
    if (!wanted.has(hostname)) {
      await remove(hostname)
      changed++
    }
  return changed
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
