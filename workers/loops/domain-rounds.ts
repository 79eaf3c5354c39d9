import {
  CertificateRefused,
  type Edge,
  NameRefused,
  type ServedName,
  type WellKnownAnswers,
  withoutMark,
} from '../../activities/edge/port.ts'
import type { Db } from '../../db/database.ts'
import { domainChangesSince } from '../../db/domains/domain-changes.ts'
import { listServedDomains, type ServedDomain } from '../../db/domains/domain-lists.ts'
import {
  listCertificateVersions,
  openCertificate,
  type ServedCertificate,
} from '../../db/domains/served-certificates.ts'
import { CodedError } from '../../policy/errors.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { type EntryRefusal, reconcileTable } from './reconcile-table.ts'

/** Where each text comes from that the proxy itself answers to authorities and probes. One that throws an CodedError cannot be had. */
export type AnswerSources = { [Kind in keyof WellKnownAnswers]: () => Promise<string | null> }

export interface DomainRoundsOptions {
  db: Db
  keys: SealKeys
  edge: Edge
  appsDomain: string
  /** Certificates of the operator's own files, which precede those that were ordered; null = not known yet. */
  ownCertificates?: () => Promise<ServedCertificate[] | null>
  answers: AnswerSources
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

/**
 * Keeps custom names and certificates of one proxy as Postgres has them: what has changed since the last round, and everything every few
 * seconds and after each start of the proxy, whose tables may be empty. One that the proxy refuses does not delay others.
 */
export class DomainRounds {
  readonly #options: DomainRoundsOptions
  readonly #now: () => number
  #mark: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY
  /** The run of the proxy whose tables were compared as a whole. */
  #run: string | null = null
  #refused: EntryRefusal[] = []
  /** The run of the proxy that has them, and its answers. */
  #answered = ''

  constructor(options: DomainRoundsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Runs one round; rejects when the proxy or Postgres is down. `unanswered`: texts that the proxy cannot answer with, by their kind. */
  async round(): Promise<{ changed: number; refused: EntryRefusal[]; unanswered: EntryRefusal[] }> {
    const { db, edge } = this.#options
    const began = this.#now()
    const { run } = await edge.standing()
    const { mark, changed } = await domainChangesSince(db, this.#mark)
    const everything = changed === null || run !== this.#run || began - this.#comparedAt >= roundSeconds.domains * 1000
    const hostnames = everything ? undefined : [...new Set([...changed, ...this.#refused.map(({ host }) => host)])]
    const unanswered = await this.#setAnswers(run)
    if (hostnames?.length === 0) {
      this.#mark = mark
      return { changed: 0, refused: [], unanswered }
    }
    // Certificates first: a name must not send clients to https before it has one, and lose it after.
    const certificates = await this.#syncCertificates(hostnames)
    const names = await this.#syncNames(hostnames)
    this.#mark = mark
    this.#refused = [...certificates.refused, ...names.refused]
    if (everything) {
      this.#comparedAt = began
      this.#run = run
    }
    return { changed: certificates.changed + names.changed, refused: this.#refused, unanswered }
  }

  /** One that cannot be had delays neither the other nor names and certificates. */
  async #setAnswers(run: string): Promise<EntryRefusal[]> {
    const { edge, answers: sources } = this.#options
    const unanswered: EntryRefusal[] = []
    const answers: WellKnownAnswers = { 'acme-challenge': null, 'berth-check': null }
    for (const kind of Object.keys(answers) as (keyof WellKnownAnswers)[])
      try {
        answers[kind] = await sources[kind]()
      } catch (error) {
        if (!(error instanceof CodedError)) throw error
        unanswered.push({ host: kind, why: error.message })
      }
    const state = `${run} ${JSON.stringify(answers)}`
    if (state !== this.#answered) await edge.setAnswers(answers)
    this.#answered = state
    return unanswered
  }

  async #syncCertificates(hosts: readonly string[] | undefined): ReturnType<typeof reconcileTable> {
    const { db, keys, edge, ownCertificates = async () => [] } = this.#options
    const ownOnes = await ownCertificates()
    const own = new Map((ownOnes ?? []).map(one => [one.hostname, one]))
    const target = new Map((await listCertificateVersions(db, hosts)).map(one => [one.hostname, one.version]))
    for (const { hostname, version } of own.values())
      if (!hosts || hosts.includes(hostname)) target.set(hostname, version)
    return reconcileTable({
      ...{ hosts, target, Refused: CertificateRefused },
      async list(some) {
        const present = await edge.listCertificates(some)
        // What is not known yet is not missing: until the files can be read, any other certificate may be one of theirs.
        const counting = ownOnes ? present : present.filter(({ host }) => target.has(host))
        return new Map(counting.map(({ host, version }) => [host, version]))
      },
      async set(hostname) {
        const certificate = own.get(hostname) ?? (await opened(db, keys, hostname))
        if (!certificate) return // released in between
        const { version, chain, privateKey: key } = certificate
        await edge.setCertificate({ host: hostname, version, chain, key })
      },
      remove: hostname => edge.removeCertificate(hostname),
      current: async hostname =>
        own.get(hostname)?.version ?? (await listCertificateVersions(db, [hostname]))[0]?.version,
    })
  }

  async #syncNames(hosts: readonly string[] | undefined): ReturnType<typeof reconcileTable> {
    const names = await this.#namesOf(hosts)
    return reconcileTable({
      ...{ hosts, target: new Map(names.map(name => [name.host, name])), Refused: NameRefused },
      list: async some => new Map((await this.#options.edge.listNames(some)).map(name => [name.host, name])),
      set: (_, name) => this.#setName(name),
      remove: host => this.#options.edge.removeName(host),
      current: async host => (await this.#namesOf([host]))[0],
    })
  }

  async #namesOf(hosts: readonly string[] | undefined): Promise<ServedName[]> {
    return (await listServedDomains(this.#options.db, hosts)).map(domain => this.#nameOf(domain))
  }

  /**
   * A proxy of an older version refuses a name with a mark that it does not know: it gets the members without that, since one that was taken
   * off must leave its list.
   */
  async #setName({ host, members }: ServedName): Promise<void> {
    const forms = [
      members,
      members.map(member => (member.endsWith(marks.unknown) ? withoutMark(member) : member)),
      members.map(withoutMark),
    ]
    const distinct = forms.filter((form, n) => n === 0 || form.join() !== forms[n - 1]!.join())
    for (const [n, form] of distinct.entries()) {
      try {
        return await this.#options.edge.setName({ host, members: form })
      } catch (error) {
        if (!(error instanceof NameRefused) || n === distinct.length - 1) throw error
      }
    }
  }

  #nameOf({ hostname, members: apps }: ServedDomain): ServedName {
    const { appsDomain } = this.#options
    const members = apps.map(({ id, subdomain, health }) => `${subdomain}.${appsDomain}@${id}${marks[health]}`)
    return { host: hostname, members }
  }
}

/** What the proxy knows members by. */
const marks = { healthy: '', unknown: '?', unhealthy: '!' } as const

/** One whose key cannot be decrypted is refused alone: the others are served. */
async function opened(db: Db, keys: SealKeys, hostname: string): Promise<ServedCertificate | undefined> {
  try {
    return await openCertificate(db, keys, hostname)
  } catch (error) {
    throw error instanceof CodedError ? new CertificateRefused(error.message) : error
  }
}
