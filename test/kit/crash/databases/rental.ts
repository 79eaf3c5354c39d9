import { setTimeout as sleep } from 'node:timers/promises'
import type { RemoteEngine } from '../../../../activities/databases/port.ts'
import type { DatabaseRow } from '../../../../db/databases/databases.ts'
import type { DatabaseOperationKind, OperationRow } from '../../../../db/operations/operations.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { withTimeout } from '../../../../lib/async/timeout.ts'
import { databaseHostname } from '../../../../policy/databases/connection-url.ts'
import type { Customer } from '../../../contracts/database-engine.ts'
import type { Answer, TestUser } from '../../actors/api.ts'
import { customers } from '../../databases/customers.ts'
import type { DatabaseStage } from './stage.ts'

/** What an owner asks for; `moment` is a restore to one. */
export type Kind = Exclude<DatabaseOperationKind, 'undo' | 'upgrade' | 'drill'> | 'moment'

const sizes = { redis: [512, 768], postgres: [1024, 1280], mysql: [1024, 1280] } as const
const versions = { redis: '8', postgres: '17', mysql: '9' } as const

/** One write that the engine has acknowledged. */
interface Acknowledged {
  number: number
  /** Milliseconds since 1970. */
  at: number
}

/** A database of an account of its own, and a customer who writes to it all along. */
export class Rental {
  id = ''
  /** The password that the API gave last. */
  password = ''
  remote!: RemoteEngine
  readonly acknowledged: Acknowledged[] = []
  /** Numbers of writes whose answers never came. */
  readonly doubtful: number[] = []
  #ramIndex = 0
  #number = 0
  #snapshot = { snapshotId: '', versionId: '' }
  #moment = ''
  #writing: Promise<void> | null = null
  #isOver = false

  private constructor(
    readonly stage: DatabaseStage,
    readonly user: TestUser,
  ) {}

  static async open(stage: DatabaseStage): Promise<Rental> {
    return new Rental(stage, await stage.platform.api.makeUser())
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
    const { engine } = this.stage
    if (kind === 'create') {
      const memory = sizes[engine][0]
      // A host that has just come back takes databases within a moment.
      for (const deadline = Date.now() + 30_000; ; await sleep(200)) {
        const answer = await send('POST', '/v2/databases', {
          name: 'kept',
          type: engine,
          version: versions[engine],
          memory,
        })
        const waits = answer.body?.code === 'CLUSTER_MAINTENANCE_TRY_LATER' && Date.now() < deadline
        if (!waits) return this.#taken(answer)
      }
    }
    if (kind === 'resize') {
      this.#ramIndex = 1 - this.#ramIndex
      return send('PATCH', this.path, { ram: sizes[engine][this.#ramIndex] })
    }
    if (kind === 'rotate' || kind === 'certify') {
      const reset = kind === 'rotate' ? 'password' : 'certificate'
      const answer = await send('POST', `${this.path}/credentials/reset`, { reset })
      if (kind === 'rotate' && answer.status === 200) this.password = answer.body.response.password
      return answer
    }
    if (kind === 'delete') return send('DELETE', this.path)
    if (kind === 'snapshot') return send('POST', `${this.path}/snapshots`)
    if (kind === 'restore') return send('POST', `${this.path}/snapshots/restore`, this.#snapshot)
    if (kind === 'moment') return send('POST', `${this.path}/snapshots/restore`, { timestamp: this.#moment })
    return send('POST', `${this.path}/${kind}`)
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
   * What must be so before the operation: a database that runs, one that is stopped, one with a snapshot. Resolves to the number of
   * writes that the operation must keep.
   */
  async prepare(kind: Kind): Promise<number> {
    const demand = async (asked: Kind) => {
      const answer = await this.ask(asked)
      if (answer.status !== 200) throw new Error(`${asked}: ${answer.status} ${answer.text}`)
    }
    if (kind === 'create') return 0
    if (this.id === '') await demand('create')
    const row = await this.row()
    this.#ramIndex = sizes[this.stage.engine].indexOf(row!.ram_mb as never)
    if (row!.desired_state === 'stopped' && kind !== 'start') await demand('start')
    this.write()
    const before = this.acknowledged.length
    if (row!.desired_state === 'running' || kind !== 'start')
      await this.stage.platform.until(async () => this.acknowledged.length > before + 2, 60, 'writes')
    if (kind === 'start' && row!.desired_state === 'running') await demand('stop')
    const kept = this.acknowledged.length
    if (kind === 'moment') {
      this.#moment = await this.#restorableMoment()
      const before = this.acknowledged.length
      this.write()
      return before
    }
    if (kind !== 'restore') return kept
    await demand('snapshot')
    const { name, version_id: versionId } = (await this.snapshots())[0]!
    this.#snapshot = { snapshotId: name, versionId }
    return kept
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
    const opening = customers[this.stage.engine](this.remote, password)
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
        this.acknowledged.push({ number, at: Date.now() })
        await sleep(40)
      }
      customer?.end()
      if (!customer) await sleep(100)
    }
  }
}
