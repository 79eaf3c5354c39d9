import test from 'ava'
import { recordActivities } from '../../activities/records.ts'
import { queueMail } from '../../db/accounts/mails.ts'
import * as operations from '../../db/operations/operations.ts'
import { defaultPlans } from '../../policy/accounts/plans.ts'
import { openTemporal } from '../../workers/connect.ts'
import { temporalLanes } from '../../workers/temporal/lanes.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { diesAt, workerCreationSurvives } from '../kit/crash/crash-kit.ts'
import { isFrozen, startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram } from '../kit/programs.ts'
import { readMail, startMailServer } from '../kit/servers/mail-server.ts'

const started = testPlatform({ worker: false })

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

for (const point of ['records.claimNext:after', 'records.releaseServes:after'])
  test.serial(`a worker that dies at ${point}: the creation ends as one running application`, async t => {
    t.timeout(120_000)
    await workerCreationSurvives(t, await started, point)
  })

test.serial('a worker that dies before or after it sent a mail: it is sent, and a second time as the same', async t => {
  t.timeout(120_000)
  const { base, db, api } = await started
  const server = await startMailServer()
  const settings = { ...base.settings, SMTP_URL: server.url, MAIL_FROM: 'berth@example.org' }
  const ana = await api.makeUser()
  await queueMail(db, { userId: ana.id, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  const row = () => db('mails').where({ user_id: ana.id }).first()
  for (const [point, received] of [
    ['mailer.send:before', 0],
    ['mailer.send:after', 1],
  ] as const) {
    await diesAt(t, startEntry('worker', { ...settings, CRASH_POINT: point }), point)
    t.is(server.received.length, received, point)
    t.like(await row(), { state: 'queued' })
    await db('mails').update({ next_try_at: db.fn.now() })
  }
  const healed = startEntry('worker', settings)
  t.teardown(() => Promise.all([healed.kill('SIGKILL'), server.stop()]))
  await comesTrue(async () => (await row()).state === 'sent')
  const ids = server.received.map(raw => readMail(raw).headers['Message-ID'])
  t.deepEqual(ids, [`<${(await row()).id}@example.org>`, `<${(await row()).id}@example.org>`])
})

test.serial('a worker frozen before it records a start: when it wakes, the later stop stays', async t => {
  t.timeout(240_000)
  const platform = await started
  const { base, db, api } = platform
  const ana = await api.makeUser()
  const settings = { CRASH_POINT: 'records.appServes:before', CRASH_SIGNAL: 'SIGSTOP' }
  const worker = startEntry('worker', { ...base.settings, ...settings })
  const client = openTemporal(base.config)
  const app = await platform.deploy(ana, nodeProgram('survived'))
  t.teardown(async () => {
    await worker.kill('SIGKILL')
    await client.workflow.getHandle(laneId(app.id)).terminate()
    await client.connection.close()
  })
  t.is((await api.as(ana).post(`/v2/apps/${app.id}/stop`)).status, 200)
  const ask = (kind: 'start' | 'stop') =>
    operations.enqueueOperation(db, { targetId: app.id, kind, ownerId: ana.id, actor: ana.id })
  const start = await ask('start')
  await temporalLanes(client, { queuePrefix: base.config.queuePrefix }).wake(app.id, ana.id)
  await platform.until(async () => isFrozen(worker), 90, 'it stands still')

  // What another worker writes that continues the same run of the lane.
  const { claim: run, claim_step } = await db('operations').where({ id: start.id }).first()
  let step = claim_step + 100
  const { appsDomain, host } = base.config
  const records = recordActivities({
    ...{ db, appsDomain, plans: defaultPlans, diskMbPer256Mb: host.diskMbPer256Mb },
    claim: () => ({ run, step: ++step }),
  })
  const { engine, bootId } = platform.hosts.get('a')!.parts
  const name = `berth-${app.id}-1`
  const { id, hostPort, startedAt } = (await engine.inspect(name))!
  const claimed = (await records.claimNext(app.id, { underWay: [] }))!
  t.is(claimed.id, start.id)
  await records.recordStep(claimed.id, 'goes on elsewhere')
  const at = startedAt!.toISOString()
  await records.appStarted(claimed, { containerId: id, hostPort, startedAt: at, bootId, variablesVersion: 0 })
  const stop = await ask('stop')
  const ending = (await records.claimNext(app.id, { underWay: [] }))!
  await records.recordDesired(ending, 'stopped')
  await engine.stop(name, 1)
  await records.appStopped(ending, { containerId: id, code: 0, oom: false, at: new Date().toISOString() })
  t.like(await operations.findOperation(db, stop.id), { state: 'success' })
  const before = await platform.row(app.id)
  t.like(before, { status: 'exited', desired_state: 'stopped' })

  worker.child.kill('SIGCONT')
  worker.child.kill('SIGTERM') // exits once its running steps have ended
  await worker.ended
  t.deepEqual(await platform.row(app.id), before)
  t.is((await engine.inspect(name))?.running, false)
})
