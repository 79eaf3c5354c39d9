import type { SerialFn } from 'ava'
import type { Release } from '../../activities/releases/release.ts'
import { hasPlace, loadApp } from '../../db/apps/apps.ts'
import { readLog } from '../../db/deploys/deployments.ts'
import { claimLost } from '../../policy/apps/claims.ts'
import { ownAddress } from '../../policy/apps/published-address.ts'
import type { HostActivities, MakeScene } from './host-scene.ts'

const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const noExit = { containerId: null, code: null, oom: false }

/** The part of the contract about containers. */
export function hostContainersContract(test: SerialFn, name: string, scene: MakeScene): void {
  test(`${name}: a start returns where its container listens, and may be repeated`, async t => {
    const { ask, failure, standing, release, db, app } = await scene('start', { running: false })
    await db('apps').where({ id: app.id }).update({ variables_version: 3 })
    t.deepEqual((await standing()).containers, {})
    const started = await ask(({ startApp }) => startApp(release, { mustStand: true }))
    t.like(started, { hostAddress: ownAddress('127.0.0.1', app.uid), bootId: 'boot', variablesVersion: 3 })
    t.true(started.hostPort! > 0 && started.containerId.length > 0)
    t.regex(started.startedAt, isTime)
    t.deepEqual((await standing()).containers, { 1: true })
    const again = await ask(({ startApp }) => startApp(release, { mustStand: true }), { attempt: 2 })
    t.deepEqual(again, started, 'the answer of the first attempt was lost')
    t.deepEqual(await ask(({ startApp }) => startApp(release, { mustStand: false })), started, 'what runs serves')
    const refused = await failure(({ startApp }) => startApp(release, { mustStand: true }))
    t.like(refused, { type: 'CONTAINER_ALREADY_STARTED', final: true })
    t.deepEqual((await standing()).containers, { 1: true })
  })

  test(`${name}: a stop returns how the container ended, and returns the same when repeated`, async t => {
    const { ask, failure, standing, release } = await scene('stop')
    const exit = await ask(({ stopApp }) => stopApp(release, { mustRun: true }))
    t.like(exit, { code: 143, oom: false })
    t.truthy(exit.containerId)
    t.regex(exit.at, isTime)
    t.deepEqual((await standing()).containers, { 1: false }, 'it stays, with its output')
    t.deepEqual(await ask(({ stopApp }) => stopApp(release, { mustRun: true }), { attempt: 2 }), exit)
    t.deepEqual(await ask(({ stopApp }) => stopApp(release, { mustRun: false })), exit)
    const refused = await failure(({ stopApp }) => stopApp(release, { mustRun: true }))
    t.like(refused, { type: 'CONTAINER_ALREADY_STOPPED', final: true })
  })

  test(`${name}: a stop that its lane has given up still ends the container`, async t => {
    const { ask, standing, release, db, operationId } = await scene('stop')
    await db('operations').where({ id: operationId }).update({ claim_step: 9 })
    t.like(await ask(({ stopApp }) => stopApp(release, { mustRun: true })), { code: 143 })
    t.deepEqual((await standing()).containers, { 1: false })
  })

  const restart = (release: Release) => (activities: HostActivities) =>
    activities.stopApp(release, { mustRun: false, thenStart: true })

  test(`${name}: a restart returns how the container ended and where it listens now, and may be repeated`, async t => {
    const { ask, standing, release, app } = await scene('restart')
    for (const attempt of [1, 2]) {
      const { started, ...exit } = await ask(restart(release), { attempt })
      t.like(exit, { code: 143, oom: false })
      t.like(started, { hostAddress: ownAddress('127.0.0.1', app.uid), bootId: 'boot', containerId: exit.containerId })
      t.true(started!.hostPort! > 0 && started!.startedAt >= exit.at)
      t.deepEqual((await standing()).containers, { 1: true })
    }
    const ended = await scene('restart', { running: false })
    t.is((await ended.ask(restart(ended.release))).code, null, 'one that does not run is started')
    t.deepEqual((await ended.standing()).containers, { 1: true })
  })

  test(`${name}: a restart records its outcome where its route has not changed, and leaves it to its lane elsewhere`, async t => {
    const { ask, failure, standing, db, app, release, operationId } = await scene('restart')
    const state = async () => (await db('operations').where({ id: operationId }).first('state')).state
    const { started } = await ask(restart(release))
    const row = { release: 1, boot_id: 'boot', host_port: started!.hostPort, host_address: started!.hostAddress }
    const elsewhere = {
      'another port': { host_port: started!.hostPort! + 1 },
      'no port': { host_port: null },
      'another address': { host_address: '127.0.0.1' },
      'an earlier boot': { boot_id: 'before' },
      'another release': { release: 2 },
      'shown as exited': { status: 'exited' },
    }
    for (const [what, change] of Object.entries(elsewhere)) {
      await db('apps')
        .where({ id: app.id })
        .update({ ...row, status: 'restarting', ...change })
      if ('release' in change) t.false(await hasPlace(db, app.id, { ...started!, release: 1, startedAt: new Date() }))
      else t.is((await ask(restart(release))).recorded, undefined, what)
      t.is(await state(), 'running', what)
    }
    await db('apps')
      .where({ id: app.id })
      .update({ ...row, status: 'restarting', desired_state: 'stopped' })
    const again = await ask(restart(release))
    t.true(again.recorded)
    t.is(await state(), 'success')
    const { startedAt } = again.started!
    t.like(await loadApp(db, app.id), {
      ...row,
      status: 'running',
      desired_state: 'running',
      started_at: new Date(startedAt),
    })
    t.like(await failure(restart(release)), { type: claimLost, details: [] }, 'repeated, it stops nothing')
    t.deepEqual((await standing()).containers, { 1: true })
  })

  test(`${name}: a restart that its lane has given up neither stops nor starts anything`, async t => {
    const { failure, standing, release, db, operationId } = await scene('restart')
    await db('operations').where({ id: operationId }).update({ claim_step: 9 })
    t.like(await failure(restart(release)), { type: claimLost, final: true, details: [] })
    t.deepEqual((await standing()).containers, { 1: true })
  })

  test(`${name}: a restart that cannot start its container again says how it ended`, async t => {
    const { ask, failure, standing, suffer, release } = await scene('restart')
    await suffer('the engine is away')
    const away = await failure(restart(release))
    t.like(away, { type: 'ACTION_FAILED', final: false })
    t.deepEqual(away?.details, [], 'nothing was stopped')
    await suffer('no image')
    const failed = await failure(restart(release))
    t.like(failed, { type: 'DEPLOY_FAILED', final: true })
    t.like(failed?.details[0], { code: 143, oom: false })
    t.deepEqual((await standing()).containers, { 1: false })
    await suffer(null)
    await ask(restart(release), { attempt: 2 })
    t.deepEqual((await standing()).containers, { 1: true })
  })

  test(`${name}: two versions of a web application run concurrently, of a program without a port never`, async t => {
    const web = await scene('deploy')
    const [first, second] = [
      await web.ask(({ startApp }) => startApp(web.before, { mustStand: false })),
      await web.ask(({ startRelease }) => startRelease(web.release)),
    ]
    t.deepEqual((await web.standing()).containers, { 1: true, 2: true })
    t.not(first.hostPort, second.hostPort)
    t.not(first.containerId, second.containerId)

    const { ask, standing, release } = await scene('deploy', { web: false })
    const alone = await ask(({ startRelease }) => startRelease(release))
    t.like(alone, { hostPort: null, hostAddress: null, bootId: 'boot' })
    t.deepEqual((await standing()).containers, { 1: false, 2: true })
    t.deepEqual(await ask(({ startRelease }) => startRelease(release)), alone)
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, alone)), null, 'it stays up')
  })

  test(`${name}: a program that ends right away does not pass, with its exit, and the reason is in the log`, async t => {
    const { ask, standing, suffer, release, db } = await scene('deploy')
    await suffer('the program ends')
    const started = await ask(({ startRelease }) => startRelease(release))
    const unhealthy = await ask(({ passHealthGate }) => passHealthGate(release, started))
    t.like(unhealthy?.exit, { containerId: started.containerId, code: 137, oom: true })
    t.true(unhealthy!.reason.length > 0)
    t.true((await readLog(db, release.deploymentId!)).includes(unhealthy!.reason))
    t.deepEqual((await standing()).containers, { 1: true, 2: false })
    await ask(({ removeContainer }) => removeContainer(release))
    await ask(({ removeContainer }) => removeContainer(release))
    t.deepEqual((await standing()).containers, { 1: true })
    t.like(await ask(({ stopApp }) => stopApp(release, { mustRun: false })), noExit, 'of nothing there is no exit')
  })

  test(`${name}: a web application that does not answer does not pass, and keeps running until it is stopped`, async t => {
    const { ask, standing, suffer, release } = await scene('deploy')
    const healthy = await ask(({ startRelease }) => startRelease(release))
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, healthy)), null)
    await ask(({ removeContainer }) => removeContainer(release))
    await suffer('the program is deaf')
    const started = await ask(({ startRelease }) => startRelease(release))
    t.is(started.answered, undefined)
    t.like(await ask(({ passHealthGate }) => passHealthGate(release, started)), { exit: null })
    t.deepEqual((await standing()).containers, { 1: true, 2: true })
  })

  test(`${name}: a container of an earlier boot proves nothing about its program, and is started again`, async t => {
    const { ask, standing, release } = await scene('deploy')
    const started = await ask(({ startRelease }) => startRelease(release))
    await ask(({ stopApp }) => stopApp(release, { mustRun: false }))
    const failed = await ask(({ passHealthGate }) => passHealthGate(release, started))
    t.is(failed?.gone, undefined)
    t.truthy(failed?.reason, 'of this boot it has failed')
    const gate = () => ask(({ passHealthGate }) => passHealthGate(release, { bootId: 'an earlier one' }))
    t.like(await gate(), { gone: true, exit: null })
    t.deepEqual((await standing()).containers, { 1: true, 2: false })
    const again = await ask(({ startRelease }) => startRelease(release))
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, again)), null)
    t.deepEqual((await standing()).containers, { 1: true, 2: true })
  })

  test(`${name}: a container that was removed before the check proves nothing about its program, and is created again`, async t => {
    for (const web of [true, false]) {
      const { ask, standing, release } = await scene('deploy', { web })
      const first = await ask(({ startRelease }) => startRelease(release))
      await ask(({ removeContainer }) => removeContainer(release))
      const unhealthy = await ask(({ passHealthGate }) => passHealthGate(release, first))
      t.like(unhealthy, { gone: true, exit: noExit })
      const second = await ask(({ startRelease }) => startRelease(release))
      t.is(await ask(({ passHealthGate }) => passHealthGate(release, second)), null)
      t.true((await standing()).containers[2])
      await ask(({ stopApp }) => stopApp(release, { mustRun: true }))
      const ended = await ask(({ passHealthGate }) => passHealthGate(release, second))
      t.is(ended?.gone, undefined, 'one that ended has failed')
      t.truthy(ended?.reason)
    }
  })

  test(`${name}: a deploy that has ended retires the previous version, and cannot stop the serving one`, async t => {
    const { ask, failure, standing, release, before, end } = await scene('deploy')
    await ask(({ startRelease }) => startRelease(release))
    await end()
    const served = { type: 'ACTION_FAILED', final: true }
    t.like(await failure(({ stopApp }) => stopApp(release, { mustRun: false })), served)
    t.like(await failure(({ removeContainer }) => removeContainer(release)), served)
    t.like(await failure(({ discardRelease }) => discardRelease(release)), served)
    t.like(await failure(({ startApp }) => startApp(before, { mustStand: false })), { type: claimLost, final: true })
    t.like(await ask(({ stopApp }) => stopApp(before, { mustRun: false })), { code: 143 })
    await ask(({ removeContainer }) => removeContainer(before))
    t.deepEqual((await standing()).containers, { 2: true })
  })

  test(`${name}: a deletion removes every container, then the files once the application is deleted`, async t => {
    const { ask, failure, standing, release, remove } = await scene('delete')
    t.like(await failure(({ removeFiles }) => removeFiles(release)), { type: 'ACTION_FAILED', final: true })
    await ask(({ removeContainers }) => removeContainers(release))
    await ask(({ removeContainers }) => removeContainers(release))
    t.deepEqual(await standing(), { containers: {}, files: 1, disk: true, busy: 0 })
    await remove()
    await ask(({ removeFiles }) => removeFiles(release))
    await ask(({ removeFiles }) => removeFiles(release))
    t.deepEqual(await standing(), { containers: {}, files: null, disk: false, busy: 0 })
  })

  test(`${name}: while the engine is unreachable steps fail as retryable, and succeed afterwards`, async t => {
    const { ask, failure, standing, suffer, release, before } = await scene('deploy')
    const started = await ask(({ startRelease }) => startRelease(release))
    await suffer('the engine is away')
    const away = { type: 'ACTION_FAILED', final: false }
    t.like(await failure(({ startRelease }) => startRelease(release)), away)
    t.like(await failure(({ passHealthGate }) => passHealthGate(release, started)), away)
    t.like(await failure(({ startApp }) => startApp(before, { mustStand: false })), away)
    t.like(await failure(({ stopApp }) => stopApp(before, { mustRun: false })), away)
    t.like(await failure(({ removeContainer }) => removeContainer(before)), away)
    t.like(await failure(({ discardRelease }) => discardRelease(release)), away)
    await suffer(null)
    t.deepEqual((await standing()).containers, { 1: true, 2: true })
    t.deepEqual(await ask(({ startRelease }) => startRelease(release)), started)
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, started)), null)
    await ask(({ stopApp }) => stopApp(before, { mustRun: true }))
    await ask(({ removeContainer }) => removeContainer(before))
    t.deepEqual((await standing()).containers, { 2: true })

    const deletion = await scene('delete')
    await deletion.suffer('the engine is away')
    t.like(await deletion.failure(({ removeContainers }) => removeContainers(deletion.release)), away)
    await deletion.suffer(null)
    await deletion.ask(({ removeContainers }) => removeContainers(deletion.release))
  })

  test(`${name}: without its image a release is not started, permanently, and running containers stay`, async t => {
    const { failure, standing, suffer, release, before } = await scene('deploy')
    await suffer('no image')
    const none = { type: 'DEPLOY_FAILED', final: true }
    t.like(await failure(({ startRelease }) => startRelease(release)), none)
    t.like(await failure(({ startApp }) => startApp(before, { mustStand: false })), none)
    t.deepEqual((await standing()).containers, { 1: true })
  })
}
