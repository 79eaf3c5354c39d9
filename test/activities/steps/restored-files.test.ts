import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { decide } from '../../../activities/releases/decision.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import { openDeployment, readLog } from '../../../db/deploys/deployments.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { changingVersions, enqueueOperation, findOperation, isBusy } from '../../../db/operations/operations.ts'
import { ActRefused, cancelOperation, clearUndoMark } from '../../../db/operations/operator-acts.ts'
import { problemOf } from '../../../policy/apps/app-problems.ts'
import { showUndoFrom } from '../../../policy/apps/undo-attempts.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { hostSteps } from '../../kit/hosts/host-steps.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const folder = mkdtempSync(join(tmpdir(), 'berth-restored-files-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))
test.before('a host that answers however long this takes', async () => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

/** A deploy that is rolled back on a host whose disk is full until the test changes that. */
async function scene() {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const { id } = await enqueueOperation(db, { targetId: app.id, kind: 'deploy', ownerId: user.id, actor: user.id })
  const wanted = {
    appId: app.id,
    operationId: id,
    release: 2,
    revision: '',
    segmentId: null,
    source: 'upload',
  } as const
  const deployment = await openDeployment(db, wanted)
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, [])
  const { release } = (await decide(db, { appsDomain: 'x.test', diskMbPer256Mb: 10 }, id))!
  const disk = { full: true }
  const restore = async () => {
    if (disk.full) throw new Error('ENOSPC: no space left on /var/lib/berth/hosts/h1/mounts/data')
  }
  const inSlot = (_account: string, _signal: AbortSignal, work: () => Promise<unknown>) => work()
  const { activities } = hostSteps(db, 'h1', folder, { placement: { restore, inSlot } as never })
  const attempt = (n: number) =>
    asActivity({ run: 'lane', step: 5 }, () => activities.restoreFiles(release), undefined, n).then(
      () => null,
      (error: ApplicationFailure) => error,
    )
  const reported = async () => ({
    problem: problemOf((await loadApp(db, app.id))!),
    step: (await findOperation(db, id))?.step ?? null,
    log: await readLog(db, deployment.id),
  })
  return { db, app, user, id, disk, attempt, reported, asked: { operationId: id, actor: 'operator:ana' } }
}

test('an undo of files that fails is retried without end, and its reason is shown meanwhile', async t => {
  const { db, app, disk, attempt, reported } = await scene()
  for (let n = 1; n < showUndoFrom; n++) t.false((await attempt(n))?.nonRetryable ?? false)
  t.deepEqual(await reported(), { problem: undefined, step: null, log: '' }, 'the first tries are no news')
  for (const n of [showUndoFrom, 5000]) t.false((await attempt(n))?.nonRetryable ?? false, 'nothing ends it')
  const { problem, step, log } = await reported()
  t.is(problem?.code, 'RESTORE_INTERRUPTED')
  t.regex(problem?.message ?? '', /could not be put back: ENOSPC: no space left on data$/)
  t.true(step?.startsWith(changingVersions) && step.endsWith(problem!.message), step ?? '')
  t.true(await isBusy(db, app.id), 'the host watch keeps away')
  t.is(log, `${problem!.message}\n`, 'once')
  disk.full = false
  t.is(await attempt(5001), null)
  t.is((await reported()).problem, undefined, 'it was undone in the end')
})

test('a failing undo is given up when an operator requests its end after it was shown, and the mark stays until it is cleared', async t => {
  const { db, id, attempt, reported, asked } = await scene()
  await cancelOperation(db, asked)
  t.false((await attempt(showUndoFrom))?.nonRetryable ?? false, 'the request that started the undo does not end it')
  t.false((await attempt(4))?.nonRetryable ?? false)
  await t.throwsAsync(clearUndoMark(db, asked), { instanceOf: ActRefused, message: /still being undone/ })
  await cancelOperation(db, asked)
  const end = await attempt(5)
  t.like(end, { nonRetryable: true, type: 'RESTORE_INTERRUPTED' })
  t.truthy((await reported()).problem)
  await db('operations').where({ id }).update({ state: 'error', finished_at: new Date() })
  await clearUndoMark(db, asked)
  t.is((await reported()).problem, undefined)
  t.deepEqual(await db('operation_acts').where({ operation_id: id }).orderBy('id').pluck('act'), [
    'cancel',
    'cancel',
    'clear',
  ])
  await t.throwsAsync(clearUndoMark(db, asked), { instanceOf: ActRefused, message: /no mark/ })
})

test('files of an application that is about to be deleted are not put back', async t => {
  const { db, app, user, attempt } = await scene()
  t.false((await attempt(showUndoFrom))?.nonRetryable ?? false)
  await enqueueOperation(db, { targetId: app.id, kind: 'delete', ownerId: user.id, actor: user.id })
  t.like(await attempt(4), { nonRetryable: true, type: 'RESTORE_INTERRUPTED' })
})
