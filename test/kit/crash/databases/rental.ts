import { X509Certificate } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RemoteEngine } from '../../../../activities/databases/port.ts'
import type { DatabaseRow } from '../../../../db/databases/databases.ts'
import type { DatabaseOperationKind, OperationRow } from '../../../../db/operations/operations.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { withTimeout } from '../../../../lib/async/timeout.ts'
import { databaseHostname } from '../../../../policy/databases/connection-url.ts'
import type { EngineName } from '../../../../policy/databases/engine.ts'
import { engines } from '../../../../policy/databases/engines.ts'
import type { Customer } from '../../../contracts/database-engine.ts'
import type { Answer, TestUser } from '../../actors/api.ts'
import { customers } from '../../databases/customers.ts'
import type { DatabaseStage } from './stage.ts'

/** What an owner asks for; `moment` is a restore to one. */
export type Kind = Exclude<DatabaseOperationKind, 'undo' | 'upgrade' | 'drill'> | 'moment'

/** Memory in MB, before and after a change of it. */
const sizes = [1024, 1280] as const

/** What a restore keeps and takes, in numbers of acknowledged writes. */
export interface Kept {
  /** So many there were before the snapshot, or the moment, was asked for: they stay. */
  before: number
  /** So many there were afterwards: those from here until the restore begins are not in it. */
  since: number
}

/** Their callers get 202 when they take long, and they go on. */
const goOn: readonly Kind[] = ['snapshot', 'restore', 'moment']

/** A database of an account of its own, and a customer who writes to it all along. */
export class Rental {
  id = ''
  /** The password that the API gave last. */
  password = ''
  /** Of the certificate that was issued last when a caller was told so. */
  fingerprint = ''
  remote!: RemoteEngine
  /** Numbers of writes that the engine has acknowledged. */
  readonly acknowledged: number[] = []
  /** Numbers of writes whose answers never came. */
  readonly doubtful: number[] = []
  #ramIndex = 0
  #number = 0
  #snapshot = { snapshotId: '', versionId: '' }
  #moment = ''
  #writing: Promise<void> | null = null
  #isOver = false

  private constructor(
    readonly stage: Pick<DatabaseStage, 'platform'>,
    readonly engine: EngineName,
    readonly user: TestUser,
  ) {}

  static async open(stage: Pick<DatabaseStage, 'platform'>, engine: EngineName): Promise<Rental> {
    return new Rental(stage, engine, await stage.platform.api.makeUser())
  }

  get path(): string {
    return `/v2/databases/${this.id}`
  }

  row(): Promise<DatabaseRow | undefined> {
    const { db } = this.stage.platform
    return db('databases').where({ owner_id: this.user.id }).first()
  }

  /** The last operation of this kind. */
  operation(kind: Kind): Promise<OperationRow | undefined> {
    const { db } = this.stage.platform
    const recorded = kind === 'moment' ? 'restore' : kind
    const mine = db('operations').where({ owner_id: this.user.id, target_type: 'database', kind: recorded })
    return mine.orderBy('created_at', 'desc').first()
  }

  /** Asks for it; the answer comes when it ends. */
  async ask(kind: Kind): Promise<Answer> {
    const as = this.stage.platform.api.as(this.user)
    const send = (method: string, path: string, body?: object) =>
      as.request(method, path, body ? { body: JSON.stringify(body) } : {})
    const { engine: type } = this
    if (kind === 'create') {
      const asked = { name: 'kept', type, version: engines[type].versions[0], memory: sizes[0] }
      // A host that has just come back takes databases within a moment.
      for (const deadline = Date.now() + 30_000; ; await sleep(200)) {
        const answer = await send('POST', '/v2/databases', asked)
        const waits = answer.body?.code === 'CLUSTER_MAINTENANCE_TRY_LATER' && Date.now() < deadline
        if (!waits) return this.#taken(answer)
      }
    }
    if (kind === 'resize') {
      this.#ramIndex = 1 - this.#ramIndex
      return send('PATCH', this.path, { ram: sizes[this.#ramIndex] })
    }
    if (kind === 'rotate' || kind === 'certify') {
      const reset = kind === 'rotate' ? 'password' : 'certificate'
      const answer = await send('POST', `${this.path}/credentials/reset`, { reset })
      if (answer.status !== 200) return answer
      if (kind === 'rotate') this.password = answer.body.response.password
      // Read now: what is lost later is issued anew, and the row has that then.
      else this.fingerprint = new X509Certificate((await this.row())!.certificate!).fingerprint256
      return answer
    }
    if (kind === 'delete') return send('DELETE', this.path)
    if (kind === 'snapshot') return send('POST', `${this.path}/snapshots`)
    if (kind === 'restore') return send('POST', `${this.path}/snapshots/restore`, this.#snapshot)
    if (kind === 'moment') return send('POST', `${this.path}/snapshots/restore`, { timestamp: this.#moment })
    return send('POST', `${this.path}/${kind}`)
  }

  /** The same, but it must succeed: what goes on after 202, and a creation, which a busy machine may have no time for, in the end. */
  async demand(kind: Kind): Promise<Answer> {
    for (const deadline = Date.now() + 300_000; ; ) {
      const answer = await this.ask(kind)
      if (answer.status === 200) return answer
      if (answer.status === 202 && goOn.includes(kind)) {
        const isDone = async () => (await this.operation(kind))?.state === 'success'
        await this.stage.platform.until(isDone, 300, `${kind}, which took longer than its caller waited`)
        return answer
      }
      if (kind !== 'create' || Date.now() > deadline) throw new Error(`${kind}: ${answer.status} ${answer.text}`)
    }
  }

  async #taken(answer: Answer): Promise<Answer> {
    if (answer.status !== 200) return answer
    const { id, password, certificate }: Record<string, string> = answer.body.response
    this.id = id!
    this.password = password!
    const text = Buffer.from(certificate!, 'base64').toString()
    const authority = text.slice(text.lastIndexOf('-----BEGIN'))
    const servername = databaseHostname(id!, this.stage.platform.base.config.databases.domain)
    const { port } = (await this.row())!
    this.remote = { host: '127.0.0.1', port, authority, servername }
    return answer
  }

  /**
   * What must be so before the operation: a database that runs, one that is stopped, one with a snapshot and writes that are not in it.
   */
  async prepare(kind: Kind): Promise<Kept> {
    if (kind === 'create') return { before: 0, since: 0 }
    if (this.id === '') await this.demand('create')
    const row = await this.row()
    this.#ramIndex = sizes.indexOf(row!.ram_mb as never)
    if (row!.desired_state === 'stopped' && kind !== 'start') await this.demand('start')
    this.write()
    if (row!.desired_state === 'running' || kind !== 'start') await this.#moreWrites()
    if (kind === 'start' && row!.desired_state === 'running') await this.demand('stop')
    const before = this.acknowledged.length
    if (kind === 'moment') {
      this.#moment = await this.#restorableMoment()
      const since = this.acknowledged.length
      this.write()
      await this.#moreWrites()
      return { before: since, since }
    }
    if (kind !== 'restore') return { before, since: before }
    await this.demand('snapshot')
    const since = this.acknowledged.length
    await this.#moreWrites()
    const { name, version_id: versionId } = (await this.snapshots())[0]!
    this.#snapshot = { snapshotId: name, versionId }
    return { before, since }
  }

  async #moreWrites(): Promise<void> {
    const present = this.acknowledged.length
    await this.stage.platform.until(async () => this.acknowledged.length > present + 2, 60, 'writes')
  }

  /** One that nothing is written at; the first base backup may have to be made before it. */
  async #restorableMoment(): Promise<string> {
    const { platform } = this.stage
    const ranges = async () => (await platform.api.as(this.user).get(this.path)).body.response.restorable as unknown[]
    await platform.until(async () => (await ranges()).length > 0, 120, 'a base backup')
    await this.rest()
    await sleep(1000)
    const moment = new Date().toISOString()
    await sleep(1000)
    return moment
  }

  /** Newest first. */
  async snapshots(): Promise<{ name: string; version_id: string }[]> {
    return (await this.stage.platform.api.as(this.user).get(`${this.path}/snapshots`)).body.response
  }

  connect(password = this.password): Promise<Customer> {
    const opening = customers[this.engine](this.remote, password)
    return withTimeout(opening, 10_000, () => {
      opening.then(customer => customer.end()).catch(ignoreError('it is late anyway'))
      return new Error('No connection within 10 s.')
    })
  }

  /** Begins to write, one number after the other, through every interruption. */
  write(): void {
    this.#isOver = false
    this.#writing ??= this.#keepWriting()
  }

  async rest(): Promise<void> {
    this.#isOver = true
    await this.#writing
    this.#writing = null
  }

  async #keepWriting(): Promise<void> {
    while (!this.#isOver) {
      const customer = await this.connect().catch(() => null)
      while (customer && !this.#isOver) {
        const number = ++this.#number
        // An engine that was taken away with its network says nothing more.
        const isWritten = await withTimeout(customer.write(number), 5000, () => new Error('No answer.')).then(
          () => true,
          () => false,
        )
        if (!isWritten) {
          this.doubtful.push(number)
          break
        }
        this.acknowledged.push(number)
        await sleep(40)
      }
      customer?.end()
      if (!customer) await sleep(100)
    }
  }
}
