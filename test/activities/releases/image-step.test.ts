import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { everyMs, imageOfStep, newestLines } from '../../../activities/releases/image-step.ts'
import { readLog } from '../../../db/deploys/deployments.ts'
import { recordImageWait } from '../../../db/operations/image-waits.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { isSwitching, recordStep } from '../../../db/operations/operations.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** A creation that run `lane` holds, and an engine that brings an image when the test says so. */
async function scene() {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app, operationId } = await make.app((await make.user()).id)
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, [])
  const { id: deploymentId } = await db('deployments').where({ app_id: app.id }).first()
  let report = (_: string): void => {}
  let end = (_?: Error): void => {}
  const engine = {
    ensureImage: (_: string, onProgress?: (line: string) => void) =>
      new Promise<void>((done, failed) => {
        report = onProgress!
        end = error => (error ? failed(error) : done())
      }),
  }
  const wait = (run = 'lane', signal = new AbortController().signal) => {
    const step = { operationId, release: { deploymentId }, image: 'berth/node:22', seconds: null, signal }
    return asActivity({ run, step: 5 }, () => imageOfStep({ db, engine: engine as never }, step))
  }
  const shown = async () => (await db('operations').where({ id: operationId }).first()).step
  return {
    ...{ db, app, operationId, wait, shown },
    log: () => readLog(db, deploymentId),
    report: (line: string) => report(line),
    end: (error?: Error) => end(error),
  }
}

test('while an image is brought, the step and the log say so with its progress; then the step is as before', async t => {
  const { db, operationId, wait, shown, log, report, end } = await scene()
  await recordStep(db, operationId, 'building')
  const waiting = wait()
  report('pulling node:22')
  await comesTrue(async () => (await shown()) === 'building: preparing image node:22: pulling node:22')
  t.is(everyMs, 3 * 1000)
  report('berth/node:22: installing packages')
  await comesTrue(async () => (await shown()) === 'building: preparing image node:22: installing packages')
  end()
  await waiting
  t.is(await shown(), 'building')
  t.is(await log(), 'preparing image node:22: pulling node:22\npreparing image node:22: installing packages\n')
})

test('an image that is there changes nothing, and one that cannot be had leaves the step as it was', async t => {
  const { db, operationId, wait, shown, log, report, end } = await scene()
  await recordStep(db, operationId, 'building')
  const present = wait()
  end()
  await present
  t.is(await log(), '')
  const failing = wait()
  report('pulling node:22')
  await comesTrue(async () => (await shown()) !== 'building')
  end(new Error('no registry'))
  await t.throwsAsync(failing, { message: 'no registry' })
  t.is(await shown(), 'building')
})

test('a change of versions is still one while it waits for an image', async t => {
  const { db, app, operationId, shown } = await scene()
  await db('operations').where({ id: operationId }).update({ kind: 'deploy' })
  await recordStep(db, operationId, 'changing versions')
  for (const line of ['node:22: pulling', 'node:22: 3 of 9 MB']) await recordImageWait(db, operationId, line)
  t.is(await shown(), 'changing versions: preparing image node:22: 3 of 9 MB')
  t.true(await isSwitching(db, app.id))
  await recordImageWait(db, operationId, null)
  t.is(await shown(), 'changing versions')
  await db('operations').where({ id: operationId }).update({ step: null })
  await recordImageWait(db, operationId, 'node:22: pulling')
  t.is(await shown(), 'preparing image node:22: pulling')
  await recordImageWait(db, operationId, null)
  t.is(await shown(), null)
})

test('a step that was given up no longer shows its image', async t => {
  const { db, operationId, wait, shown, log, report, end } = await scene()
  await recordStep(db, operationId, 'building')
  const other = wait('another lane')
  report('pulling node:22')
  end()
  await other
  t.is(await shown(), 'building')
  t.is(await log(), '', 'nor does its log')
  const aborted = new AbortController()
  const waiting = wait('lane', aborted.signal)
  report('pulling node:22')
  await comesTrue(async () => (await shown()) !== 'building')
  aborted.abort(new Error('given up'))
  await t.throwsAsync(waiting, { message: 'given up' })
  t.is(await shown(), 'building')
  report('pulling node:22: 1 of 2 MB')
  t.is(await shown(), 'building')
})

test('of many lines the first and the newest are passed on, one at a time, and none after the end', async t => {
  const passed: string[] = []
  let open = 0
  const lines = newestLines(30, async line => {
    t.is(++open, 1)
    passed.push(line)
    await sleep(40)
    open--
  })
  for (let n = 1; n <= 1000; n++) lines.add(`line ${n}`)
  t.deepEqual(passed, [])
  await comesTrue(() => passed.length === 2)
  t.deepEqual(passed, ['line 1', 'line 1000'])
  lines.add('last')
  t.true(await lines.close())
  lines.add('after the end')
  t.is(open, 0)
  t.false(passed.includes('after the end'))
  t.false(await newestLines(1, async () => {}).close())
})
