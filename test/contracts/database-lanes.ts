import type { SerialFn } from 'ava'
import { type DatabaseRow, loadDatabase } from '../../db/databases/databases.ts'
import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'
import { findOperation } from '../../db/operations/operations.ts'
import { commandTimeouts } from '../../policy/timeouts.ts'
import type { Answer, TestApi, TestUser } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'

export type DatabaseCommand = Exclude<DatabaseOperationKind, 'snapshot' | 'restore' | 'undo' | 'upgrade' | 'drill'>

export interface DatabaseLanesUnderTest {
  api: TestApi
  /** Every such command fails at its host from now on; null = none does. */
  fail(command: DatabaseCommand | null): void
  /** Such a command does not end until the returned function is called. */
  hold(command: DatabaseCommand): () => void
}

const redis = { name: 'cache', memory: 512, type: 'redis', version: '8' }

/** How each command is requested, and the changes that its success makes in the row of a database that runs. */
const commands: Record<
  Exclude<DatabaseCommand, 'create' | 'delete'>,
  { method: string; path: string; body?: object; leaves: Partial<DatabaseRow>; failure: string }
> = {
  stop: {
    ...{ method: 'POST', path: '/stop', failure: 'ACTION_FAILED' },
    leaves: { status: 'exited', desired_state: 'stopped', started_at: null, exit_code: 0, exit_oom: false },
  },
  start: {
    ...{ method: 'POST', path: '/start', failure: 'ACTION_FAILED' },
    leaves: { status: 'running', desired_state: 'running', exit_code: null, exit_at: null },
  },
  resize: {
    ...{ method: 'PATCH', path: '', body: { ram: 4096 }, failure: 'ACTION_FAILED' },
    leaves: { status: 'running', ram_mb: 4096, reserved_mb: 4096, cpu: 2 },
  },
  rotate: {
    ...{ method: 'POST', path: '/credentials/reset', body: { reset: 'password' }, failure: 'RESET_FAILED' },
    leaves: { status: 'running', password_generation: 2 },
  },
  certify: {
    ...{ method: 'POST', path: '/credentials/reset', body: { reset: 'certificate' }, failure: 'RESET_FAILED' },
    leaves: { status: 'running', password_generation: 1 },
  },
}

/** What commands for databases report to an owner, and store in the rows. */
export function databaseLanesContract(test: SerialFn, name: string, subject: () => DatabaseLanesUnderTest): void {
  const create = (who: TestUser): Promise<Answer> => subject().api.as(who).post('/v2/databases', JSON.stringify(redis))
  const row = async (id: string) => (await loadDatabase(subject().api.db, id))!
  const operationOf = (answer: Answer) => findOperation(subject().api.db, answer.headers.get('x-operation-id') ?? '')
  const newest = (id: string, kind: DatabaseCommand) =>
    subject().api.db('operations').where({ target_id: id, kind }).orderBy('seq', 'desc').first()

  async function created(): Promise<{ ana: TestUser; id: string }> {
    const ana = await subject().api.makeUser()
    return { ana, id: (await create(ana)).body.response.id }
  }

  function ask(ana: TestUser, id: string, command: keyof typeof commands): Promise<Answer> {
    const { method, path, body } = commands[command]
    return subject()
      .api.as(ana)
      .request(method, `/v2/databases/${id}${path}`, body && { body: JSON.stringify(body) })
  }

  test.beforeEach(() => {
    subject().fail(null)
    subject().api.services.timeouts = commandTimeouts
  })

  test(`${name}: a creation is answered once its database serves`, async t => {
    const ana = await subject().api.makeUser()
    const answer = await create(ana)
    t.is(answer.status, 200, answer.text)
    const { id } = answer.body.response
    t.like(await row(id), { status: 'running', desired_state: 'running', password_generation: 1, exit_at: null })
    t.truthy((await row(id)).provisioned_at)
    t.truthy((await row(id)).started_at)
    t.like(await operationOf(answer), { kind: 'create', state: 'success', code: null, message: null })
  })

  test(`${name}: a creation that fails leaves its reason, and no row`, async t => {
    const ana = await subject().api.makeUser()
    subject().fail('create')
    const answer = await create(ana)
    t.deepEqual([answer.status, answer.body.code], [400, 'DATABASE_CREATION_FAILED'])
    const operation = (await operationOf(answer))!
    t.like(operation, { state: 'error', code: 'ACTION_FAILED', message: answer.body.message })
    t.is(await loadDatabase(subject().api.db, operation.target_id), undefined)
    t.is((await subject().api.as(ana).get('/v2/users/me')).body.response.user.plan.memory.used, 0)
  })

  test(`${name}: a creation that takes too long is cancelled, and leaves no row`, async t => {
    const { api, hold } = subject()
    const ana = await api.makeUser()
    api.services.timeouts = { ...commandTimeouts, claimMs: 20_000, creationMs: 1500, holdMs: 60_000 }
    const release = hold('create')
    const asked = create(ana)
    await comesTrue(async () => {
      const operation = await api
        .db('operations')
        .where({ owner_id: ana.id })
        .whereNotNull('cancel_requested_at')
        .first()
      return operation !== undefined
    })
    release()
    const answer = await asked
    t.deepEqual([answer.status, answer.body.code], [400, 'DATABASE_CREATION_FAILED'])
    t.like(await operationOf(answer), { state: 'cancelled', code: 'DATABASE_CREATION_FAILED' })
    t.deepEqual(await api.db('databases').where({ owner_id: ana.id }), [])
  })

  test(`${name}: a command that succeeds is answered, and recorded in the rows`, async t => {
    const { ana, id } = await created()
    for (const command of ['stop', 'start', 'certify', 'rotate', 'resize'] as const) {
      const answer = await ask(ana, id, command)
      t.is(answer.status, 200, `${command}: ${answer.text}`)
      t.like(await operationOf(answer), { kind: command as never, state: 'success', code: null })
      t.like(await row(id), commands[command].leaves, command)
      t.is((await row(id)).started_at === null, command === 'stop', command)
    }
  })

  test(`${name}: a command that fails is answered with its code, and leaves the database as it was`, async t => {
    const { ana, id } = await created()
    // No round of automatic snapshots looks at it meanwhile.
    await subject()
      .api.db('databases')
      .where({ id })
      .update({ snapshot_due_at: new Date(Date.now() + 86_400_000) })
    const settled = async () => {
      const { container_id, started_at, boot_id, ...rest } = await row(id)
      return { ...rest, runs: started_at !== null }
    }
    for (const command of ['stop', 'certify', 'rotate', 'resize'] as const) {
      const before = await settled()
      subject().fail(command)
      const answer = await ask(ana, id, command)
      t.is(answer.body.code, commands[command].failure, answer.text)
      t.like(await operationOf(answer), { state: 'error', code: 'ACTION_FAILED' })
      t.deepEqual(await settled(), before, command)
      subject().fail(null)
    }
    t.is((await ask(ana, id, 'stop')).status, 200, 'and it can be used')
    const before = await settled()
    subject().fail('start')
    t.is((await ask(ana, id, 'start')).text, '{"status":"error","code":"ACTION_FAILED"}')
    t.deepEqual(await settled(), before, 'start')
  })

  test(`${name}: a deletion removes the row, and ends what waits`, async t => {
    const { api, hold } = subject()
    const { ana, id } = await created()
    const release = hold('stop')
    const stopped = ask(ana, id, 'stop')
    await comesTrue(async () => (await newest(id, 'stop'))?.state === 'running')
    const started = ask(ana, id, 'start')
    await comesTrue(async () => (await newest(id, 'start'))?.state === 'queued')
    const deleted = api.as(ana).delete(`/v2/databases/${id}`)
    await comesTrue(async () => (await newest(id, 'delete'))?.state === 'queued')
    release()
    t.is((await stopped).status, 200)
    t.is((await deleted).text, '{"status":"success"}')
    t.is((await started).body.code, 'DATABASE_NOT_FOUND')
    t.is(await loadDatabase(api.db, id), undefined)
    t.like(await newest(id, 'start'), { state: 'cancelled', code: 'DATABASE_NOT_FOUND', started_at: null })
  })

  test(`${name}: a deletion that fails leaves the database as it was`, async t => {
    const { ana, id } = await created()
    const before = await row(id)
    subject().fail('delete')
    const answer = await subject().api.as(ana).delete(`/v2/databases/${id}`)
    t.deepEqual([answer.status, answer.body.code], [404, 'DELETE_FAILED'])
    t.deepEqual(await row(id), before)
    subject().fail(null)
    t.is((await ask(ana, id, 'stop')).status, 200, 'and it can be used')
  })
}
