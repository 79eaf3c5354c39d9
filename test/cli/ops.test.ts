import test, { type ExecutionContext } from 'ava'
import { deploymentView } from '../../api/views/deployment.ts'
import { operatorName } from '../../cli/ops/operator.ts'
import { explanation, holds, type LaneState } from '../../cli/ops/ops-explanation.ts'
import { storyView } from '../../cli/ops/ops-view.ts'
import { opsCommand } from '../../cli/ops.ts'
import { type Db, transaction } from '../../db/database.ts'
import { listDeployments } from '../../db/deploys/deployment-history.ts'
import { appendLog, recordDependencies, recordDeploymentStep } from '../../db/deploys/deployments.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import * as segments from '../../db/objects/segments.ts'
import { takeBuildSlot, waitForSlot } from '../../db/operations/build-slots.ts'
import * as operations from '../../db/operations/operations.ts'
import { listOperations, readOperationStory, resolveOperation } from '../../db/operations/operator.ts'
import { ActRefused, cancelOperation, retryOperation } from '../../db/operations/operator-acts.ts'
import { queueRestore } from '../../db/snapshots/restores.ts'
import { findSnapshot, markSnapshotGood, queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { defaultPlans } from '../../policy/accounts/plans.ts'
import { nextBringBack } from '../../policy/hosts/reconciliation.ts'
import { operatorCommand, operatorHere } from '../kit/actors/operator-command.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ownFolder } from '../kit/folders.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const running: LaneState = { workflowId: 'app/x', status: 'RUNNING', failedTasks: 0, url: 'http://ui/app%2Fx' }
const actor = 'operator:noor'

/** An application that serves, with functions that push to it, fail a deploy, and explain an operation. */
async function shop(db: Db) {
  const make = rows(db)
  await make.host('h1', { memoryMb: 16_384 })
  const ana = await make.user()
  const { app, operationId } = await make.app(ana.id)
  await operations.claimNextOperation(db, { type: 'app', id: app.id })
  await operations.finishOperation(db, operationId, { state: 'success' })
  const push = async (revision: string, branch = 'main') => {
    const cloneUrl = 'http://git.example/shop.git'
    const queued = await db.transaction(trx =>
      queueDeploy(trx, {
        appId: app.id,
        ownerId: ana.id,
        actor: ana.id,
        trigger: 'webhook',
        revision,
        branch,
        cloneUrl,
      }),
    )
    return queued!
  }
  const fail = async (deploy: { operationId: string; deploymentId: string }, code = 'BUILD_FAILED') => {
    await operations.claimNextOperation(db, { type: 'app', id: app.id })
    await recordDeploymentStep(db, deploy.deploymentId, { state: 'clone', branch: 'main' })
    await appendLog(db, deploy.deploymentId, 'npm error missing script: build\n')
    await recordDeploymentStep(db, deploy.deploymentId, { state: 'error', code, message: 'npm ended with exit code 1' })
    await operations.finishOperation(db, deploy.operationId, {
      state: 'error',
      code,
      message: 'npm ended with exit code 1',
    })
  }
  const explain = async (id: string, lane = running) => {
    const story = (await readOperationStory(db, id, 20))!
    return { story, text: explanation(story, lane, new Date()), holds: holds(story, lane, new Date()) }
  }
  return { app, ana, push, fail, explain }
}

const refused = async (t: ExecutionContext, work: Promise<unknown>, message: RegExp) =>
  t.throwsAsync(work, { instanceOf: ActRefused, message })

test.serial(
  'a waiting operation is explained with its position, the operations before it, and what delays those',
  async t => {
    const { db } = await database
    const { app, push, explain } = await shop(db)
    const first = await push('a'.repeat(40))
    await operations.claimNextOperation(db, { type: 'app', id: app.id })
    await recordDeploymentStep(db, first.deploymentId, { state: 'clone' })
    await db('deployments')
      .where({ id: first.deploymentId })
      .update({ waiting_for: 'Both build slots of h1 are taken.' })
    const other = await push('b'.repeat(40), 'next')
    const last = await push('c'.repeat(40))
    const waiting = await explain(last.operationId)
    t.regex(
      waiting.text,
      /^deploy of shop: commit ccccccc of main, pushed to its webhook\n {2}WAITING, queued \d+ s ago/,
    )
    t.is(waiting.holds[0], 'It is number 3 in the queue of its application.')
    t.regex(
      waiting.holds[1]!,
      new RegExp(`Before it: ${first.operationId.slice(0, 8)} deploy of aaaaaaa \\(main\\), running`),
    )
    t.regex(
      waiting.holds[2]!,
      new RegExp(`Before it: ${other.operationId.slice(0, 8)} deploy of bbbbbbb \\(next\\), queued`),
    )
    const building = await explain(first.operationId)
    t.deepEqual(building.holds, ['Both build slots of h1 are taken.'])
    t.regex(building.text, /RUNNING, started/)
    t.regex(building.text, /What comes next:\n {2}dependencies are installed/)
  },
)

test.serial('operators see who holds the build slots, customers see their own position only', async t => {
  const { db } = await database
  const [other, own] = [await shop(db), await shop(db)]
  const [builds, waits] = [await other.push('a'.repeat(40)), await own.push('b'.repeat(40))]
  for (const { app } of [other, own]) await operations.claimNextOperation(db, { type: 'app', id: app.id })
  await takeBuildSlot(db, builds.deploymentId)
  await waitForSlot(db, waits.operationId, 'h1')
  const [story] = await listDeployments(db, own.app.id, { limit: 1 })
  const shown = JSON.stringify(deploymentView(story!))
  t.regex(shown, /a build slot of host h1 \(position \d+\)/)
  for (const id of [builds.operationId, builds.operationId.slice(0, 8), other.app.id]) t.false(shown.includes(id))
  const holders = (await own.explain(waits.operationId)).holds.join('\n')
  t.true(holders.includes(`operation ${builds.operationId.slice(0, 8)} of application ${other.app.id}`), holders)
  await takeBuildSlot(db, waits.deploymentId)
  t.false((await own.explain(waits.operationId)).holds.join('\n').includes(other.app.id))
})

test.serial(
  'a silent host, a lane that does not run and an unreachable Temporal are reported as reasons to wait',
  async t => {
    const { db } = await database
    const { push, explain } = await shop(db)
    const deploy = await push('a'.repeat(40))
    await db('hosts')
      .where({ id: 'h1' })
      .update({ last_seen_at: db.raw(`now() - interval '3 minutes'`) })
    await db('operations')
      .where({ id: deploy.operationId })
      .update({ created_at: db.raw(`now() - interval '1 minute'`) })
    const asleep = await explain(deploy.operationId, { ...running, status: 'COMPLETED' })
    t.regex(asleep.holds.join('\n'), /Host h1 is silent, last seen 3 min ago/)
    t.regex(asleep.holds.join('\n'), /Its lane is not running \(COMPLETED\)/)
    const away = await explain(deploy.operationId, { ...running, status: 'unknown' })
    t.regex(away.holds.join('\n'), /Temporal does not answer\. Nothing is lost/)
    const failing = await explain(deploy.operationId, { ...running, failedTasks: 2 })
    t.regex(failing.holds.join('\n'), /Its lane is stuck: its workflow task failed 2 times/)
    const stuck = await explain(deploy.operationId)
    t.regex(stuck.holds.join('\n'), /next in the queue, but its lane has not claimed it/)
  },
)

test.serial(
  'a failed operation is explained with its reason, its times, its last lines and how to retry it',
  async t => {
    const { db } = await database
    const { push, fail, explain } = await shop(db)
    const deploy = await push('a'.repeat(40))
    await fail(deploy)
    const { text } = await explain(deploy.operationId)
    t.regex(text, /FAILED \d+ s ago \(.*\): BUILD_FAILED: npm ended with exit code 1/)
    t.regex(text, new RegExp(`berth ops retry ${deploy.operationId.slice(0, 8)}`))
    t.regex(text, /What happened:\n.* queued\n.* claimed by its lane\n.* clone\n.* error, BUILD_FAILED/)
    t.regex(text, /Last lines of its log:\n {2}npm error missing script: build$/)
    t.regex(text, /lane {8,}app\/x, RUNNING, http:\/\/ui\/app%2Fx/)
    t.notRegex(text, /undefined|null|\[object/)
  },
)

test.serial('an operation is found by the beginning of its id or of its deployment’s', async t => {
  const { db } = await database
  const { app, push } = await shop(db)
  const deploy = await push('a'.repeat(40))
  t.deepEqual(await resolveOperation(db, deploy.operationId.slice(0, 10)), [deploy.operationId])
  t.deepEqual(await resolveOperation(db, deploy.deploymentId.slice(0, 10)), [deploy.operationId])
  t.true((await resolveOperation(db, '')).length === 0)
  t.deepEqual(await resolveOperation(db, `%' or true --`), [])
  const queued = await listOperations(db, { appId: app.id, state: 'queued', limit: 5 })
  t.deepEqual(
    queued.map(({ id, deployment_id, revision }) => [id, deployment_id, revision]),
    [[deploy.operationId, deploy.deploymentId, 'a'.repeat(40)]],
  )
})

test.serial(
  'cancelling ends a waiting operation immediately, requests the end of a running one, and refuses others',
  async t => {
    const { db } = await database
    const { app, push } = await shop(db)
    const first = await push('a'.repeat(40))
    await operations.claimNextOperation(db, { type: 'app', id: app.id })
    const second = await push('b'.repeat(40))
    const cancel = (operationId: string) => transaction(db, trx => cancelOperation(trx, { operationId, actor }))
    t.is(await cancel(second.operationId), 'ended')
    t.like(await operations.findOperation(db, second.operationId), { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
    const ended = (await readOperationStory(db, second.operationId, 5))!
    t.like(ended.deployment, { state: 'error', code: 'DEPLOY_CANCELLED', message: 'Cancelled by an operator.' })
    t.like(ended.acts, [{ actor, act: 'cancel' }])
    t.is(await cancel(first.operationId), 'requested')
    t.is(await cancel(first.operationId), 'requested')
    t.like(await operations.findOperation(db, first.operationId), {
      state: 'running',
      cancel_requested_by: actor,
      code: null,
    })
    t.is((await operations.findOperationsToCancel(db, { type: 'app', id: app.id })).length, 1)
    await operations.finishOperation(db, first.operationId, { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
    await refused(t, cancel(first.operationId), /already ended: cancelled/)
    await refused(t, cancel('0'.repeat(32)), /no operation/)
    const [creation] = (await listOperations(db, { appId: app.id, limit: 10 })).filter(({ kind }) => kind === 'create')
    await refused(t, cancel(creation!.id), /deleting the application/)
  },
)

test.serial(
  'an operation that is claimed while it is cancelled is either ended or requested to end, never both',
  async t => {
    const { db } = await database
    const { app, push } = await shop(db)
    for (let round = 0; round < 15; round++) {
      const { operationId } = await push('a'.repeat(40))
      const [claimed, done] = await Promise.all([
        operations.claimNextOperation(db, { type: 'app', id: app.id }),
        transaction(db, trx => cancelOperation(trx, { operationId, actor })),
      ])
      t.is(done, claimed ? 'requested' : 'ended')
      if (claimed) await operations.finishOperation(db, operationId, { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
    }
  },
)

test.serial('a failed push is retried with the same commit, once, and after a newer one only with force', async t => {
  const { db } = await database
  const { app, push, fail, explain } = await shop(db)
  const deploy = await push('a'.repeat(40))
  const retry = (operationId: string, force = false) =>
    transaction(db, trx => retryOperation(trx, { operationId, actor, force }))
  await refused(t, retry(deploy.operationId), /Only failed operations/)
  await fail(deploy)
  const attempts = await Promise.allSettled([retry(deploy.operationId), retry(deploy.operationId)])
  const [made, ...rest] = attempts.flatMap(attempt => (attempt.status === 'fulfilled' ? [attempt.value] : []))
  t.is(rest.length, 0)
  const again = (await readOperationStory(db, made!.operationId, 5))!
  t.like(again.operation, { retry_of: deploy.operationId, actor, state: 'queued' })
  t.like(again.deployment, {
    revision: 'a'.repeat(40),
    branch: 'main',
    clone_url: 'http://git.example/shop.git',
    trigger: 'webhook',
  })
  const { story } = await explain(deploy.operationId)
  t.like(story.acts, [{ actor, act: 'retry' }])
  t.deepEqual(
    story.retries.map(({ id }) => id),
    [made!.operationId],
  )
  await fail({ operationId: made!.operationId, deploymentId: again.deployment!.id })
  const newer = await push('d'.repeat(40))
  await refused(t, retry(deploy.operationId), new RegExp(`Deployment ${newer.deploymentId} is newer`))
  t.truthy(await retry(deploy.operationId, true))
  await operations.enqueueDeletion(db, { targetId: app.id, kind: 'delete', ownerId: app.owner_id, actor: app.owner_id })
  await operations.endQueuedOperations(db, { type: 'app', id: app.id })
  await refused(t, retry(made!.operationId), /application was deleted/)
})

test.serial(
  'berth ops retry --clean and --force, as they are typed, mean what they say, and neither is the default',
  async t => {
    const { db, url } = await database
    const { push, fail } = await shop(db)
    const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9' }
    const retry = (id: string, ...flags: string[]) =>
      operatorHere([opsCommand], settings, 'ops', 'retry', id, '--json', ...flags)
    for (const [flags, isClean] of [
      [[], false],
      [['--clean'], true],
    ] as const) {
      const deploy = await push('a'.repeat(40))
      await fail(deploy)
      const { stdout, stderr } = await retry(deploy.operationId, ...flags)
      t.is(stderr, '')
      const { deployment, operation } = (await readOperationStory(db, JSON.parse(stdout).operation, 5))!
      t.is(deployment?.no_cache, isClean)
      await fail({ operationId: operation.id, deploymentId: deployment!.id })
    }
    const older = await push('b'.repeat(40))
    await fail(older)
    await push('c'.repeat(40))
    for (const flags of [[], ['--clean']]) t.regex((await retry(older.operationId, ...flags)).stderr, /--force/)
    t.is((await retry(older.operationId, '--force')).code, 0)
  },
)

test.serial('a retry with --clean installs anew, and so does a retry of one that did', async t => {
  const { db } = await database
  const { push, fail, app } = await shop(db)
  const retry = async (operationId: string, clean: boolean) => {
    const queued = await transaction(db, trx => retryOperation(trx, { operationId, actor, force: false, clean }))
    return (await readOperationStory(db, queued.operationId, 5))!
  }
  const deploy = await push('a'.repeat(40))
  await fail(deploy)
  const clean = await retry(deploy.operationId, true)
  t.true(clean.deployment?.no_cache)
  await fail({ operationId: clean.operation.id, deploymentId: clean.deployment!.id })
  t.true((await retry(clean.operation.id, false)).deployment?.no_cache)

  const wanted = { targetId: app.id, ownerId: app.owner_id, actor, kind: 'stop' } as const
  const { id } = await operations.enqueueOperation(db, wanted)
  await db('operations').where({ id }).update({ state: 'error' })
  await refused(t, retry(id, true), /A stop installs nothing/)
})

test.serial(
  'the commit that serves is installed anew with --clean, and not without it, nor one that no longer serves',
  async t => {
    const { db } = await database
    const { push, app } = await shop(db)
    const retry = (operationId: string, terms: object) =>
      transaction(db, trx => retryOperation(trx, { operationId, actor, force: false, ...terms }))
    const serve = async (revision: string) => {
      const deploy = await push(revision)
      await operations.claimNextOperation(db, { type: 'app', id: app.id })
      await recordDeploymentStep(db, deploy.deploymentId, { state: 'success' })
      await operations.finishOperation(db, deploy.operationId, { state: 'success' })
      const { release } = await db('deployments').where({ id: deploy.deploymentId }).first()
      await db('apps').where({ id: app.id }).update({ release })
      return deploy.operationId
    }
    const former = await serve('a'.repeat(40))
    const serving = await serve('b'.repeat(40))
    const refusal = /^Only failed operations can be retried, and with --clean the running commit; this one is success/
    await refused(t, retry(serving, {}), refusal)
    await refused(t, retry(serving, { force: true }), refusal)
    await refused(t, retry(former, { clean: true, force: true }), refusal)
    const { operationId } = await retry(serving, { clean: true })
    t.like((await readOperationStory(db, operationId, 5))!.deployment, {
      ...{ revision: 'b'.repeat(40), branch: 'main', source: 'git', no_cache: true },
    })
    await refused(t, retry(serving, { clean: true }), /already being retried/)
  },
)

test.serial('an operation says where its dependencies come from, in words and in JSON', async t => {
  const { db } = await database
  const { push, explain } = await shop(db)
  const deploy = await push('a'.repeat(40))
  t.notRegex((await explain(deploy.operationId)).text, /dependencies {4}/)
  const words = 'reused from release 12, installed at 2026-11-20T10:00:00.000Z'
  await recordDependencies(db, deploy.deploymentId, words)
  const { text, story } = await explain(deploy.operationId)
  t.regex(text, new RegExp(`dependencies +${words}`))
  t.like(storyView(story, new Date()).deployment, { dependencies: words, no_cache: false })
  t.deepEqual(story.logTail, [`Dependencies: ${words}.`])
})

test.serial('a failed upload can be retried while its archive is stored', async t => {
  const { db } = await database
  const { app, ana, fail } = await shop(db)
  const upload = async () => {
    const segmentId = await segments.allocateSegment(db)
    const archive = { segmentId, bytes: 12, sha256: 'e'.repeat(64) }
    const request = { appId: app.id, ownerId: ana.id, actor: ana.id, revision: 'e'.repeat(40), path: 'docs', archive }
    const queued = await db.transaction(trx => queueDeploy(trx, { ...request, trigger: 'upload' as const }))
    return { ...queued!, segmentId }
  }
  const retry = (operationId: string) =>
    transaction(db, trx => retryOperation(trx, { operationId, actor, force: false }))
  const kept = await upload()
  await fail(kept)
  const made = await retry(kept.operationId)
  const { deployment } = (await readOperationStory(db, made.operationId, 5))!
  t.like(deployment, { segment_id: kept.segmentId, path: 'docs', source: 'upload' })
  t.is((await db('segments').where({ id: kept.segmentId }).first()).refs, 2)
  await fail({ operationId: made.operationId, deploymentId: deployment!.id })
  const swept = await upload()
  await fail(swept)
  await db('segments').where({ id: swept.segmentId }).update({ state: 'dying' })
  await refused(t, retry(swept.operationId), /archive is no longer stored/)
})

test.serial('snapshots and restores are explained, cancelled and retried in their own words', async t => {
  const { db } = await database
  const { app, ana, push, explain } = await shop(db)
  const request = { appId: app.id, ownerId: ana.id, actor: ana.id, origin: 'manual', plans: defaultPlans } as const
  const waiting = await queueSnapshot(db, request)
  t.regex((await explain(waiting.operation_id)).text, /^snapshot of shop\n {2}WAITING, queued/)
  const actOn = (operationId: string) => ({ operationId, actor })
  t.is(await transaction(db, trx => cancelOperation(trx, actOn(waiting.operation_id))), 'ended')
  t.is((await findSnapshot(db, waiting.id))?.state, 'failed')
  t.regex((await explain(waiting.operation_id)).text, /a new snapshot can be requested at any time/)
  await refused(t, retryOperation(db, { ...actOn(waiting.operation_id), force: false }), /snapshot cannot be retried/)

  const row = await queueSnapshot(db, request)
  await operations.claimNextOperation(db, { type: 'app', id: app.id })
  await operations.recordStep(db, row.operation_id, 'copying files')
  const deploy = await push('a'.repeat(40))
  await operations.claimNextOperation(db, { type: 'app', id: app.id }, ['snapshot'])
  t.regex((await explain(row.operation_id)).text, /RUNNING, started .*: copying files/)
  t.regex(
    (await explain(deploy.operationId)).holds.join(),
    /only after the snapshot in progress: \w{8} snapshot, running/,
  )
  const stored = {
    segmentId: await segments.allocateSegment(db),
    size: 10,
    sha256: 'a'.repeat(64),
    digest: 'd'.repeat(64),
  }
  await transaction(db, trx => markSnapshotGood(trx, row.operation_id, stored))
  for (const id of [row.operation_id, deploy.operationId])
    await operations.finishOperation(db, id, { state: 'success' })
  t.regex((await explain(row.operation_id)).text, /snapshot +\w+_javascript_manual, version [\w-]{32}, 10 bytes/)

  const restore = await queueRestore(db, { appId: app.id, actor: ana.id, name: row.name, version: row.id })
  const story = await explain(restore.id)
  t.regex(story.text, new RegExp(`^restore of shop: snapshot ${row.id.slice(0, 8)}`))
  t.regex(story.text, /to cancel it: berth ops cancel/)
  await transaction(db, trx => cancelOperation(trx, actOn(restore.id)))
  const again = await transaction(db, trx => retryOperation(trx, { ...actOn(restore.id), force: false }))
  t.like(await operations.findOperation(db, again.operationId), {
    kind: 'restore',
    state: 'queued',
    retry_of: restore.id,
  })
})

test.serial('a restore whose host was forgotten is retried on another host', async t => {
  const { db } = await database
  const { app, ana } = await shop(db)
  const request = { appId: app.id, ownerId: ana.id, actor: ana.id, origin: 'manual', plans: defaultPlans } as const
  const row = await queueSnapshot(db, request)
  const stored = { segmentId: await segments.allocateSegment(db), size: 10, sha256: 'a'.repeat(64), digest: 'd' }
  await transaction(db, trx => markSnapshotGood(trx, row.operation_id, stored))
  await operations.claimNextOperation(db, { type: 'app', id: app.id })
  await operations.finishOperation(db, row.operation_id, { state: 'success' })
  const restore = await queueRestore(db, { appId: app.id, actor: ana.id, name: row.name, version: row.id })
  await operations.claimNextOperation(db, { type: 'app', id: app.id })
  await operations.finishOperation(db, restore.id, { state: 'error', code: 'CLUSTER_UNAVAILABLE' })
  await rows(db).host('lost')
  await db('hosts').where({ id: 'lost' }).update({ forgotten_at: new Date() })
  await db('apps').where({ id: app.id }).update({ host_id: 'lost', lost_with: 'lost' })
  const retry = { operationId: restore.id, actor, force: false }
  await refused(
    t,
    transaction(db, trx => retryOperation(trx, retry)),
    /./,
  )
  const place = { plans: defaultPlans, diskMbPer256Mb: 1024 }
  t.truthy(await transaction(db, trx => retryOperation(trx, { ...retry, place })))
  t.like(await db('apps').where({ id: app.id }).first(), { host_id: 'h1', lost_with: 'lost' })
})

test.serial(
  'only possible next steps are suggested: no retry of a failed deletion, and nothing for an unconfirmed operation',
  async t => {
    const { db } = await database
    const { app, ana, explain } = await shop(db)
    const deletion = { targetId: app.id, kind: 'delete', ownerId: ana.id, actor: ana.id } as const
    const { id } = await operations.enqueueOperation(db, deletion)
    await operations.claimNextOperation(db, { type: 'app', id: app.id })
    await operations.finishOperation(db, id, { state: 'error', code: 'DELETE_ERROR' })
    t.regex(
      (await explain(id)).text,
      /What comes next:\n {2}nothing; its application is as it was, and a delete can be/,
    )
    await refused(
      t,
      transaction(db, trx => retryOperation(trx, { operationId: id, actor, force: false })),
      /A delete cannot/,
    )

    const unconfirmed = {
      appId: app.id,
      ownerId: ana.id,
      actor: ana.id,
      origin: 'manual',
      plans: defaultPlans,
    } as const
    const row = await queueSnapshot(db, { ...unconfirmed, accepting: true })
    t.regex((await explain(row.operation_id)).text, /What comes next:\n {2}within minutes it is queued, or undone/)
    const cancelling = transaction(db, trx => cancelOperation(trx, { operationId: row.operation_id, actor }))
    await refused(t, cancelling, /^It is not confirmed yet/)
  },
)

test.serial('a restart for the health of an application is explained with its reason', async t => {
  const { db } = await database
  const { app, explain } = await shop(db)
  const health = {
    status: 'unhealthy',
    since: new Date(Date.now() - 30_000).toISOString(),
    reason: '/ready answered 503',
  }
  await db('apps').where({ id: app.id }).update({ health_path: '/ready', health, status: 'running' })
  const { id } = await operations.enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'restart', ownerId: app.owner_id, actor: 'health-check' },
    input: { reason: health.reason },
  })
  const { text } = await explain(id)
  t.regex(text, /requested by +health-check/)
  t.regex(text, /because +\/ready answered 503/)
  t.regex(text, /health +unhealthy since \d+ s \(\/ready answered 503\)/)
})

test.serial('a start that its host retries is explained with the time of the next try', async t => {
  const { db } = await database
  const { app, ana, explain } = await shop(db)
  await db('apps').where({ id: app.id }).update({ status: 'running', release: 1, started_at: '2020-01-01' })
  const startInVain = async (by: string) => {
    const { id } = await operations.enqueueOperation(db, {
      targetId: app.id,
      kind: 'start',
      ownerId: ana.id,
      actor: by,
    })
    await operations.claimNextOperation(db, { type: 'app', id: app.id })
    await operations.finishOperation(db, id, { state: 'error', code: 'ACTION_FAILED', message: 'The files are lost.' })
    return id
  }
  const next = async (id: string) => /What comes next:\n {2}(.*)\n {2}(.*)/.exec((await explain(id)).text)?.slice(1)
  const id = await startInVain('host-watch')
  t.regex((await next(id))![0]!, /^its host has tried 1 time to start it again, and tries next at /)
  for (let n = 0; n < 6; n++) await startInVain('host-watch')
  const last = await startInVain('host-watch')
  const { created_at: at } = (await operations.findOperation(db, last))!
  const due = nextBringBack(8, at).toISOString().slice(0, 19)
  t.is(Date.parse(`${due}Z`), Math.floor(at.getTime() / 1000 + 5 * 2 ** 7) * 1000)
  const [first, second] = (await next(last))!
  t.regex(first!, new RegExp(`tried 8 times .* tries next at ${due}Z at the latest, in `))
  t.is(second, `to retry it: berth ops retry ${last.slice(0, 8)}`)
  // The host leaves an application alone that its owner has stopped meanwhile.
  await db('apps').where({ id: app.id }).update({ desired_state: 'stopped' })
  t.regex((await explain(last)).text, /nothing; to retry it/)
})

test.serial('the commands list, explain, retry and cancel, which waits for the confirmed end', async t => {
  const { db, url } = await database
  const { app, push, fail } = await shop(db)
  const deploy = await push('a'.repeat(40))
  await fail(deploy)
  // Nothing listens at this address: every command works while Temporal is away.
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const ops = (...args: string[]) => operatorCommand(settings, 'ops', ...args)
  const list = await ops('list', '--app', app.id)
  t.regex(list.stdout, /^ID +TARGET +KIND +STATE +SINCE +WHAT\n/)
  t.regex(list.stdout, /deploy +error +\d+ s +aaaaaaa \(main\) BUILD_FAILED: npm ended/)
  const explained = await ops('explain', deploy.deploymentId.slice(0, 12))
  t.regex(explained.stdout, /FAILED[\s\S]*lane +app\/[0-9a-f]{24}, unknown/)
  const waiting = await operations.enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'restart', ownerId: app.owner_id, actor: app.owner_id },
  })
  const first = await ops('retry', deploy.operationId)
  t.regex(first.stdout, /^Queued as operation \w+, number 2 in its queue\./)
  await transaction(db, trx => cancelOperation(trx, { operationId: /operation (\w+)/.exec(first.stdout)![1]!, actor }))
  await db('operations').where({ id: waiting.id }).update({ state: 'success', finished_at: new Date() })
  const retried = JSON.parse((await ops('retry', deploy.operationId, '--json')).stdout)
  t.like(await operations.findOperation(db, retried.operation), {
    actor: operatorName(),
  })
  await operations.claimNextOperation(db, { type: 'app', id: app.id })
  const cancelled = ops('cancel', retried.operation, '--json')
  await comesTrue(async () => (await operations.findOperationsToCancel(db, { type: 'app', id: app.id })).length > 0)
  t.is((await operations.findOperation(db, retried.operation))?.state, 'running')
  await operations.finishOperation(db, retried.operation, { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
  t.like(JSON.parse((await cancelled).stdout), { operation: retried.operation, state: 'cancelled' })
  t.is((await cancelled).code, 0)
  const again = await ops('cancel', retried.operation)
  t.is(again.code, 1)
  t.regex(again.stderr, /already ended/)
  t.regex((await ops('show', 'ffffffffffff')).stderr, /no operation or deployment "ffffffffffff"/)
  t.regex((await ops('list', '--state', 'odd')).stderr, /--state must be one of/)
  const story = JSON.parse((await ops('explain', retried.operation, '--json')).stdout)
  t.like(story.lane, { status: 'unknown' })
  t.is(story.operation.retry_of, deploy.operationId)
  const actual = { account_id: app.owner_id, resource: app.id, operation_id: retried.operation, result: 'success' }
  t.like(await db('audit').where({ account_id: app.owner_id }).orderBy('id'), [
    { action: 'ops.retry' },
    { action: 'ops.retry', ...actual },
    { action: 'ops.cancel', ...actual },
  ])
})
