import type { ExecutionContext } from 'ava'
import { undoOperation as undoOne } from '../../../db/acceptance.ts'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { type Db, openDatabase } from '../../../db/database.ts'
import * as segments from '../../../db/objects/segments.ts'
import * as operations from '../../../db/operations/operations.ts'
import { newVersionId } from '../../../policy/ids.ts'
import { type Answer, openApiFor, type TestApi, type TestUser } from '../actors/api.ts'
import { comesTrue } from '../comes-true.ts'
import { deliver, newCommit, webhookOf } from '../git/deliveries.ts'
import { bringImages } from '../rows/databases.ts'
import type { TestDatabase } from '../servers/database.ts'
import { type PostgresLine, postgresLine, type Trap } from '../servers/postgres-line.ts'
import { appZip } from '../zips.ts'

/** What people and providers ask for, each stored by a commit of its own. */
const kinds = [
  'push',
  'commit',
  'creation',
  'start',
  'stop',
  'restart',
  'deletion',
  'snapshot',
  'snapshot with a key',
  'restore',
  'creation with a key',
  'rotation',
  'database creation',
] as const
export type Kind = (typeof kinds)[number]

type Message = Pick<Trap, 'at' | 'after'>

/** What stores a request: a commit; of a push, a statement. */
export const storing = (kind: Kind): Message =>
  kind === 'push' ? { at: /pushes\.store/ } : { at: /COMMIT;/, after: /insert into "operations"|deploys\.write/ }

/** The statement that lets it begin. */
export const confirming = (kind: Kind): Message => ({
  at: kind === 'push' ? /pushes\.confirm/ : /acceptance\.confirm/,
})

/** Requests that are answered immediately; a command waits for its end, which it cannot learn of without a connection. */
export const answeredImmediately: readonly Kind[] = ['push', 'commit', 'creation', 'creation with a key']

const operationOf = {
  push: 'deploy',
  commit: 'deploy',
  creation: 'create',
  'creation with a key': 'create',
  start: 'start',
  stop: 'stop',
  restart: 'restart',
  deletion: 'delete',
  snapshot: 'snapshot',
  'snapshot with a key': 'snapshot',
  restore: 'restore',
  rotation: 'rotate',
  'database creation': 'create',
}

/** Requests about databases; the others are about applications. */
const ofDatabases: readonly Kind[] = ['rotation', 'database creation']

let requests = 0

/** A user with an application, who sends requests to an API whose connection to Postgres can be cut or held. */
export class KindRequest {
  readonly #name = `doubt-${++requests}`
  readonly #push = { deliveryId: this.#name, commit: newCommit() }
  #ana!: TestUser
  #appId = ''
  #databaseId = ''
  #hook = ''
  #snapshot = { snapshotId: '', versionId: '' }

  constructor(
    readonly kind: Kind,
    readonly line: PostgresLine,
    readonly api: TestApi,
  ) {}

  async begin(): Promise<this> {
    const { api } = this
    this.#ana = await api.makeUser()
    this.#appId = (await api.makeApp(this.#ana)).id
    await bringImages(api.db)
    if (this.kind === 'rotation') this.#databaseId = (await api.makeDatabase(this.#ana)).id
    if (this.kind === 'push') this.#hook = await webhookOf(api, this.#ana, this.#appId)
    if (this.kind === 'restore') this.#snapshot = await goodSnapshot(api.db, this.#appId, this.#ana.id)
    return this
  }

  get db(): Db {
    return this.api.db
  }

  /** The same request at every call. */
  send(): Promise<Answer> {
    const { kind, api } = this
    if (kind === 'push') return deliver(api, this.#hook, this.#push)
    const as = api.as(this.#ana)
    const app = `/v2/apps/${this.#appId}`
    if (kind === 'rotation')
      return as.post(`/v2/databases/${this.#databaseId}/credentials/reset`, '{"reset":"password"}')
    if (kind === 'start' || kind === 'stop' || kind === 'restart') return as.post(`${app}/${kind}`)
    if (kind === 'deletion') return as.delete(app)
    if (kind === 'restore') return as.post(`${app}/snapshots/restore`, JSON.stringify(this.#snapshot))
    const hasKey = kind.endsWith('with a key') || kind === 'database creation'
    const headers: Record<string, string> = hasKey ? { 'idempotency-key': this.#name } : {}
    if (kind === 'database creation') return as.post('/v2/databases', JSON.stringify(redis), headers)
    if (kind.startsWith('snapshot')) return as.post(`${app}/snapshots`, undefined, headers)
    const form = new FormData()
    const zip = kind === 'commit' ? appZip() : appZip({}, { SUBDOMAIN: this.#name, MEMORY: 512 })
    form.append('file', new Blob([new Uint8Array(zip)]), 'app.zip')
    if (kind === 'commit') return as.post(`${app}/commit`, form)
    return as.post('/v2/apps', form, headers)
  }

  /** As the relay does, which wakes the lane of what was confirmed late. */
  async wake(): Promise<void> {
    const { lanes, databaseLanes } = this.api
    const [operation] = await this.operations()
    await (this.#type === 'database' ? databaseLanes : lanes).wake(operation?.target_id ?? this.#appId)
  }

  get #type(): operations.OperationTarget['type'] {
    return ofDatabases.includes(this.kind) ? 'database' : 'app'
  }

  /** What is stored of it. */
  operations(): Promise<operations.OperationRow[]> {
    const mine = this.db('operations').where({ owner_id: this.#ana.id, kind: operationOf[this.kind] })
    return this.kind.includes('creation') ? mine.whereNot({ target_id: this.#appId }) : mine
  }

  /** Whether a list shows it. */
  get #isListed(): boolean {
    return ['push', 'commit'].includes(this.kind) || this.kind.includes('creation')
  }

  /** What people see of it. */
  async seen(): Promise<unknown[]> {
    const read = async (path: string) => (await this.api.as(this.#ana).get(path)).body.response
    if (!this.#isListed) return []
    if (this.kind === 'database creation') return (await read('/v2/users/me')).databases
    if (this.kind.startsWith('creation')) {
      const { applications } = await read('/v2/users/me')
      return applications.filter(({ id }: { id: string }) => id !== this.#appId)
    }
    const of = `/v2/apps/${this.#appId}`
    const deployments: { state: string }[][] = await read(`${of}/deployments`)
    return [...deployments.slice(0, -1), ...(await read(`${of}/webhook-deliveries`))]
  }

  /** Resolves once it may begin. */
  async confirmed(): Promise<void> {
    await comesTrue(async () => (await this.operations()).some(({ state }) => state !== 'accepting'))
  }

  /** It was answered with success: it is done, once. */
  async done(t: ExecutionContext): Promise<void> {
    await this.forgotten()
    const [operation, ...more] = await this.operations()
    t.truthy(operation, `${this.kind}: what was answered with success is stored`)
    t.deepEqual(more, [], this.kind)
    await comesTrue(async () => {
      await this.wake()
      return (await this.operations())[0]?.state === 'success'
    })
    if (this.#isListed) t.true((await this.seen()).length > 0, `${this.kind} is seen`)
  }

  /** It was answered with 503: nothing happened, nothing is seen of it, nothing will happen, and it may come again. */
  async undone(t: ExecutionContext): Promise<void> {
    const refused = `${this.kind}: what was answered with 503`
    const targets = [this.#databaseId || this.#appId, ...(await this.operations()).map(({ target_id }) => target_id)]
    t.deepEqual(await this.seen(), [], refused)
    for (const target of targets)
      t.is(await operations.claimNextOperation(this.db, { type: this.#type, id: target }), undefined, refused)
    await this.forgotten()
    t.deepEqual(await this.operations(), [], refused)
    t.deepEqual(await this.db('deployments').where({ owner_id: this.#ana.id }), [], refused)
    const made = this.db('snapshots').where({ owner_id: this.#ana.id }).whereNot({ id: this.#snapshot.versionId })
    t.deepEqual(await made, [], refused)
    t.is(await usedMemoryMb(this.db, this.#ana.id), this.kind === 'rotation' ? 768 : 256, refused)
    await this.#keyIsFree()
    const again = await this.send()
    t.is(again.status, 200, `${refused}, sent again: ${again.text}`)
    await this.done(t)
  }

  /** Does what the relay does after its time, for this request only. */
  async forgotten(): Promise<void> {
    for (const { id } of await this.operations()) await undoOne(this.db, id)
  }

  /** A key whose giving back got lost is given up by time. */
  async #keyIsFree(): Promise<void> {
    const claimed = this.db('idempotency_keys').where({ user_id: this.#ana.id })
    await claimed.clone().whereNull('status').update({ created_at: '2000-01-01' })
  }
}

const redis = { name: 'cache', type: 'redis', version: '8', memory: 512 }

/** Requests in groups without concurrent creations: one that is held has the rows of the hosts. */
export function withoutConcurrentCreations(requests: readonly KindRequest[]): KindRequest[][] {
  const creations = requests.filter(({ kind }) => kind.includes('creation'))
  const others = requests.filter(({ kind }) => !kind.includes('creation'))
  return [others, ...creations.map(creation => [creation])]
}

/** A snapshot that can be restored. */
async function goodSnapshot(db: Db, appId: string, ownerId: string) {
  const { id } = await operations.enqueueOperation(db, { targetId: appId, kind: 'snapshot', ownerId, actor: ownerId })
  await operations.claimNextOperation(db, { type: 'app', id: appId })
  await operations.finishOperation(db, id, { state: 'success' })
  const snapshot = {
    id: newVersionId(),
    target_id: appId,
    owner_id: ownerId,
    operation_id: id,
    name: `${appId}_javascript_manual`,
    runtime: 'javascript',
    origin: 'manual',
    state: 'good',
    digest: 'd'.repeat(64),
    config: '{}',
    segment_id: await segments.allocateSegment(db),
  }
  await db('snapshots').insert(snapshot)
  return { snapshotId: snapshot.name, versionId: snapshot.id }
}

/** An API of its own for each kind, so that each has its own line; in Postgres it goes by the name of the kind. */
export async function apisOfKinds(
  database: TestDatabase,
  undo: (() => Promise<unknown>)[],
  { statementTimeoutMs = 1000, pool = 5 } = {},
) {
  const made = kinds.map(async kind => {
    const line = await postgresLine(database.url)
    const db = openDatabase({ url: line.url, pool, statementTimeoutMs, applicationName: kind })
    undo.push(
      () => line.close(),
      () => db.destroy(),
    )
    return { kind, line, api: await openApiFor(database, { services: () => ({ db }) }, undo) }
  })
  return Promise.all(made)
}
