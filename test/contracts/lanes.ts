import type { SerialFn } from 'ava'
import * as apps from '../../db/apps/apps.ts'
import { transaction } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Lanes } from '../../workflows/client.ts'
import type { Answer, TestApi, TestUser } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import type { Command, CommandScript, Refused } from './command-script.ts'

export interface LanesUnderTest {
  api: TestApi
  /** The lanes that the API wakes. */
  lanes: Lanes
  host: CommandScript
  /** An application that runs. */
  running(): Promise<{ ana: TestUser; app: apps.AppRow }>
  /** True = no wake-up arrives from now on. */
  lose(wakeUps: boolean): void
  /** Acts as the relay of a worker where there is none. */
  relay(): Promise<unknown>
}

const engineAway = {
  trouble: 'the engine is away',
  code: 'ACTION_FAILED',
  message: 'The engine does not answer.',
} as const

/** With the code that the caller gets, and the changes in the application's row. */
const failures: readonly (Refused & { answered: string; leaves: Partial<apps.AppRow> })[] = [
  { command: 'restart', ...engineAway, answered: 'ACTION_FAILED', leaves: {} },
  { command: 'stop', ...engineAway, answered: 'ACTION_FAILED', leaves: {} },
  {
    command: 'stop',
    trouble: 'its program has ended',
    code: 'CONTAINER_ALREADY_STOPPED',
    message: 'It is stopped already.',
    answered: 'CONTAINER_ALREADY_STOPPED',
    leaves: { desired_state: 'stopped' },
  },
  {
    command: 'start',
    trouble: 'no image',
    code: 'DEPLOY_FAILED',
    message: 'The image cannot be had.',
    answered: 'ACTION_FAILED',
    leaves: {},
  },
]

/** The outcome of a command whose lane was woken, in the rows and for its caller. */
export function lanesContract(test: SerialFn, name: string, subject: () => LanesUnderTest): void {
  const ask = ({ ana, app }: { ana: TestUser; app: { id: string } }, command: Command): Promise<Answer> => {
    const as = subject().api.as(ana)
    return command === 'delete' ? as.delete(`/v2/apps/${app.id}`) : as.post(`/v2/apps/${app.id}/${command}`)
  }
  const find = (id: string | null) => operations.findOperation(subject().api.db, id ?? '')
  const rowOf = (answer: Answer) => find(answer.headers.get('x-operation-id'))
  const appRow = (app: { id: string }) => apps.loadApp(subject().api.db, app.id)
  const newest = (app: { id: string }, kind: Command): Promise<operations.OperationRow | undefined> =>
    subject().api.db('operations').where({ target_id: app.id, kind }).orderBy('seq', 'desc').first()
  const isQueued = async (app: { id: string }, kind: Command) => (await newest(app, kind))?.state === 'queued'

  test(`${name}: a successful command is answered to its caller, and recorded in the rows`, async t => {
    const { running, host } = subject()
    const made = await running()
    const ends = {
      stop: { status: 'exited', desired_state: 'stopped', started_at: null, host_port: null },
      start: { status: 'running', desired_state: 'running', exit_code: null, exit_at: null },
      restart: { status: 'running', desired_state: 'running', exit_code: null, exit_at: null },
    } as const
    for (const [command, row] of Object.entries(ends) as [keyof typeof ends, object][]) {
      const before = host.calls(made.app.id).length
      const answer = await ask(made, command)
      t.deepEqual([answer.status, answer.text], [200, '{"status":"success"}'], command)
      const operation = await rowOf(answer)
      t.like(operation, { kind: command, state: 'success', code: null, message: null })
      t.true(operation!.started_at! <= operation!.finished_at!)
      t.like(await appRow(made.app), row, command)
      t.is((await appRow(made.app))!.started_at !== null, command !== 'stop')
      t.true(host.calls(made.app.id).slice(before).includes(`${command} ends`))
    }
  })

  test(`${name}: a failure is answered with its code, its message stays in the row, and the application is unchanged`, async t => {
    const { running, host } = subject()
    for (const { answered, leaves, ...refused } of failures) {
      const made = await running()
      const { command, code, message } = refused
      if (command === 'start') t.is((await ask(made, 'stop')).status, 200)
      // No round of automatic snapshots looks at it meanwhile.
      await subject()
        .api.db('apps')
        .where({ id: made.app.id })
        .update({ snapshot_due_at: new Date(Date.now() + 86_400_000) })
      const before = await appRow(made.app)
      host.refuses(made.app.id, refused)
      const answer = await ask(made, command)
      t.is(answer.text, `{"status":"error","code":"${answered}"}`)
      t.like(await rowOf(answer), { state: 'error', code, message })
      t.truthy((await rowOf(answer))?.finished_at)
      t.deepEqual(await appRow(made.app), { ...before!, ...leaves }, refused.trouble)
    }
  })

  test(`${name}: a deletion removes the application, and cancels waiting operations`, async t => {
    const { running, host, api } = subject()
    const made = await running()
    const release = host.holds(made.app.id, 'stop')
    const stopped = ask(made, 'stop')
    await comesTrue(() => host.calls(made.app.id).includes('stop begins'))
    const started = ask(made, 'start')
    await comesTrue(() => isQueued(made.app, 'start'))
    const deleted = ask(made, 'delete')
    await comesTrue(() => isQueued(made.app, 'delete'))
    release()
    t.is((await stopped).status, 200)
    const answer = await deleted
    t.deepEqual([answer.status, answer.text], [200, '{"status":"success"}'])
    t.like(await rowOf(answer), { state: 'success', code: null })
    t.is(await appRow(made.app), undefined)
    t.is((await api.as(made.ana).get(`/v2/apps/${made.app.id}`)).status, 404)
    t.is((await started).body.code, 'APP_NOT_FOUND')
    t.like(await newest(made.app, 'start'), { state: 'cancelled', code: 'APP_NOT_FOUND', started_at: null })
    t.deepEqual(host.calls(made.app.id).slice(-4), ['stop begins', 'stop ends', 'delete begins', 'delete ends'])
  })

  test(`${name}: a failed deletion leaves the application unchanged`, async t => {
    const { running, host, api } = subject()
    const made = await running()
    const before = await appRow(made.app)
    host.refuses(made.app.id, { command: 'delete', ...engineAway })
    const answer = await ask(made, 'delete')
    t.deepEqual([answer.status, answer.body.code], [404, 'DELETE_ERROR'])
    t.like(await rowOf(answer), { state: 'error', code: 'ACTION_FAILED', message: engineAway.message })
    t.deepEqual(await appRow(made.app), before)
    t.is((await api.as(made.ana).get(`/v2/apps/${made.app.id}`)).status, 200)
    t.is((await ask(made, 'stop')).status, 200, 'and can be used')
  })

  test(`${name}: each command runs once, one at a time and oldest first, however often its lane is woken`, async t => {
    const { running, host, lanes } = subject()
    const made = await running()
    const wake = () => lanes.wake(made.app.id, made.ana.id)
    const before = host.calls(made.app.id).length
    const release = host.holds(made.app.id, 'stop')
    const stopped = ask(made, 'stop')
    await comesTrue(() => host.calls(made.app.id).includes('stop begins'))
    const started = ask(made, 'start')
    await comesTrue(() => isQueued(made.app, 'start'))
    await Promise.all(Array.from({ length: 20 }, wake))
    release()
    t.deepEqual([(await stopped).status, (await started).status], [200, 200])
    await Promise.all(Array.from({ length: 20 }, wake))
    t.is((await ask(made, 'restart')).status, 200)
    const calls = host.calls(made.app.id).slice(before)
    t.deepEqual(calls.slice(0, 4), ['stop begins', 'stop ends', 'start begins', 'start ends'])
    for (const command of ['stop', 'restart']) t.is(calls.filter(word => word === `${command} begins`).length, 1)
  })

  test(`${name}: no command waits for the lane of another application`, async t => {
    const { running, host } = subject()
    const [held, other] = [await running(), await running()]
    const release = host.holds(held.app.id, 'stop')
    const stopped = ask(held, 'stop')
    await comesTrue(() => host.calls(held.app.id).includes('stop begins'))
    t.is((await ask(other, 'stop')).status, 200)
    t.is((await newest(held.app, 'stop'))?.state, 'running')
    release()
    t.is((await stopped).status, 200)
  })

  test(`${name}: a command that was given up before its lane was woken never runs`, async t => {
    const { running, host, lanes, api } = subject()
    const { ana, app } = await running()
    const stop = { targetId: app.id, kind: 'stop', ownerId: ana.id, actor: ana.id } as const
    // In one transaction: the relay wakes lanes too.
    const id = await transaction(api.db, async trx => {
      const queued = await operations.enqueueOperation(trx, stop)
      t.true(await operations.expireQueuedOperation(trx, queued.id))
      return queued.id
    })
    await lanes.wake(app.id, ana.id)
    // Of two, the older one would be first.
    t.is((await ask({ ana, app }, 'restart')).status, 200)
    t.like(await find(id), { state: 'expired', started_at: null })
    t.false(host.calls(app.id).includes('stop begins'))
  })

  test(`${name}: a wake-up without work has no effect`, async t => {
    const { running, host, lanes } = subject()
    const { ana, app } = await running()
    const before = host.calls(app.id).length
    await lanes.wake(app.id, ana.id)
    await lanes.wake('f'.repeat(24), ana.id)
    t.is((await ask({ ana, app }, 'stop')).status, 200)
    t.deepEqual(host.calls(app.id).slice(before), ['stop begins', 'stop ends'])
  })
}

/** A lost wake-up, separate from the others: no wake-up arrives meanwhile. */
export function lostWakesContract(test: SerialFn, name: string, subject: () => LanesUnderTest): void {
  test(`${name}: a lost wake-up is an error for its sender, and the command still runs`, async t => {
    const { running, host, lanes, lose, relay, api } = subject()
    const { ana, app } = await running()
    lose(true)
    t.teardown(() => lose(false))
    await t.throwsAsync(lanes.wake(app.id, ana.id))
    const answer = api.as(ana).post(`/v2/apps/${app.id}/stop`)
    const mine = () => api.db('operations').where({ target_id: app.id, kind: 'stop' })
    // Elsewhere its own worker picks it up.
    await comesTrue(async () => !['accepting', undefined].includes((await mine().first())?.state))
    // As if it had waited that long.
    await mine().update({ created_at: new Date(Date.now() - 5000) })
    await relay()
    t.is((await answer).status, 200)
    t.like(await mine().first(), { state: 'success' })
    t.deepEqual(host.calls(app.id), ['stop begins', 'stop ends'])
  })
}
