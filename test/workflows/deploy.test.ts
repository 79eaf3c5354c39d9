import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { explanation } from '../../cli/ops/ops-explanation.ts'
import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { loadApp } from '../../db/apps/apps.ts'
import { readCacheVersion } from '../../db/apps/cache-versions.ts'
import { transaction } from '../../db/database.ts'
import { readLog } from '../../db/deploys/deployments.ts'
import * as operations from '../../db/operations/operations.ts'
import { readOperationStory } from '../../db/operations/operator.ts'
import { cancelOperation } from '../../db/operations/operator-acts.ts'
import { problemOf } from '../../policy/apps/app-problems.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepHistory } from '../kit/platform/histories.ts'
import { configFile } from '../kit/rows/rows.ts'
import { deployKit } from './deploy-kit.ts'
import { portOf } from './ports.ts'

const kit = deployKit()
const programEnded = 'The program ended right after its start.'

test('a web application: the old version is retired only after the new one serves', async t => {
  const { running, push, steps, edge, client, db } = await kit
  const app = await running()
  const { end, deployment } = await push(app)
  t.like(await end(), { state: 'success', code: null })
  t.deepEqual(await steps(app, 4), ['prepareRelease 2', 'placeFiles 2', 'startRelease 2', 'passHealthGate 2'])
  t.like(await loadApp(db, app.id), { release: 2, host_port: portOf(app.id, 2), status: 'running' })
  t.like(await deployment(), { state: 'success', code: null })
  t.deepEqual(
    (await edge.listRoutes()).filter(route => route.appId === app.id).map(route => route.port),
    [portOf(app.id, 2)],
  )
  t.deepEqual((await steps(app, 7)).slice(4), ['stopApp 1', 'removeContainer 1', 'settleFiles 2'])
  const { events } = await client.workflow.getHandle(laneId(app.id)).fetchHistory()
  const waits = (events ?? []).map(event => Number(event.timerStartedEventAttributes?.startToFireTimeout?.seconds))
  t.true(waits.includes(5), 'requests that the old version has been given have 5 s to be answered')
  await keepHistory(client, 'deploy-web', app.id)
})

test('a program that answers as soon as it is started has no gate to pass', async t => {
  const { running, push, steps, behave, client, db } = await kit
  const app = await running()
  behave(app, { answersAtOnce: true })
  t.is((await (await push(app)).end()).state, 'success')
  t.deepEqual(await steps(app, 6), [
    ...['prepareRelease 2', 'placeFiles 2', 'startRelease 2'],
    ...['stopApp 1', 'removeContainer 1', 'settleFiles 2'],
  ])
  t.like(await loadApp(db, app.id), { release: 2, host_port: portOf(app.id, 2), status: 'running' })
  await keepHistory(client, 'deploy-answering', app.id)
})

test('a program without a port is stopped before the new one starts', async t => {
  const { running, push, steps, client, db } = await kit
  const app = await running({ subdomain: null })
  t.is((await (await push(app)).end()).state, 'success')
  t.deepEqual((await steps(app, 8)).slice(1), [
    ...['placeFiles 2', 'stopApp 1', 'startRelease 2', 'passHealthGate 2'],
    ...['stopApp 1', 'removeContainer 1', 'settleFiles 2'],
  ])
  t.like(await loadApp(db, app.id), { release: 2, host_port: null, status: 'running' })
  await keepHistory(client, 'deploy-program', app.id)
})

test('a web application that fails its gate: the files are put back, the old version keeps serving, and success is never shown', async t => {
  const { running, push, steps, behave, edge, client, db, events } = await kit
  const app = await running()
  behave(app, { unhealthy: 2 })
  const { end, deployment } = await push(app)
  t.like(await end(), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.like(await deployment(), { state: 'error', code: 'HEALTH_CHECK_FAILED', message: programEnded })
  t.deepEqual((await steps(app, 7)).slice(3), [
    ...['passHealthGate 2', 'removeContainer 2', 'restoreFiles 2', 'discardRelease 2'],
  ])
  t.like(await loadApp(db, app.id), { release: 1, host_port: portOf(app.id, 1), status: 'running' })
  t.is((await edge.listRoutes()).find(route => route.appId === app.id)?.port, portOf(app.id, 1))
  t.deepEqual(await events(await deployment()), ['pending', 'clone', 'commit', 'restarting', 'error'])
  t.like(await (await push(app)).end(), { state: 'success' }, 'and the next one is not held up')
  await keepHistory(client, 'deploy-failed-gate', app.id)
})

test('a container that is removed during its gate is created again and serves from its new port; a third one fails the deploy', async t => {
  const { running, push, steps, behave, edge, db, client } = await kit
  const app = await running()
  behave(app, { vanish: { times: 2, by: 'removal' } })
  t.like(await (await push(app)).end(), { state: 'success', code: null })
  const third = portOf(app.id, 2, 2)
  const starts = Array.from({ length: 3 }, () => ['startRelease 2', 'passHealthGate 2']).flat()
  t.deepEqual((await steps(app, 8)).slice(2, 8), starts)
  t.like(await loadApp(db, app.id), { release: 2, host_port: third, status: 'running' })
  t.is((await edge.listRoutes()).find(route => route.appId === app.id)?.port, third)

  const other = await running()
  behave(other, { vanish: { times: 3, by: 'removal' } })
  t.like(await (await push(other)).end(), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.deepEqual((await steps(other, 11)).slice(2), [
    ...starts,
    ...['removeContainer 2', 'restoreFiles 2', 'discardRelease 2'],
  ])
  t.like(await loadApp(db, other.id), { release: 1, host_port: portOf(other.id, 1), status: 'running' })
  await keepHistory(client, 'deploy-removed', app.id)
  await keepHistory(client, 'deploy-removed-failed', other.id)
})

test('an engine that restarts during a gate: the new version is started again, and serves from its new port', async t => {
  const { running, push, steps, behave, edge, db } = await kit
  const app = await running()
  behave(app, { vanish: { times: 1, by: 'engine' } })
  t.like(await (await push(app)).end(), { state: 'success', code: null })
  const twice = ['startRelease 2', 'passHealthGate 2', 'startRelease 2', 'passHealthGate 2']
  t.deepEqual((await steps(app, 6)).slice(2, 6), twice)
  const second = portOf(app.id, 2, 1)
  t.like(await loadApp(db, app.id), { release: 2, host_port: second, boot_id: 'boot/1', status: 'running' })
  t.is((await edge.listRoutes()).find(route => route.appId === app.id)?.port, second)
})

test('a program without a port that fails its gate: the old version is started again', async t => {
  const { running, push, steps, behave, client, db } = await kit
  const app = await running({ subdomain: null })
  behave(app, { unhealthy: 2 })
  t.is((await (await push(app)).end()).code, 'HEALTH_CHECK_FAILED')
  t.deepEqual((await steps(app, 9)).slice(2), [
    ...['stopApp 1', 'startRelease 2', 'passHealthGate 2', 'removeContainer 2', 'restoreFiles 2', 'startApp 1'],
    'discardRelease 2',
  ])
  t.like(await loadApp(db, app.id), { release: 1, status: 'running', desired_state: 'running' })
  await keepHistory(client, 'deploy-failed-gate-program', app.id)
})

test('an undo that fails permanently is shown in the deploy, its operation, its log and its application, until the next success', async t => {
  const { running, push, behave, db } = await kit
  const app = await running({ subdomain: null })
  behave(app, { unhealthy: 2, restoreFails: 2, startFails: true })
  const { end, deployment, operationId } = await push(app)
  const failed = await end()
  t.like(failed, { state: 'error', code: 'RESTORE_INTERRUPTED' })
  const reported =
    /HEALTH_CHECK_FAILED: The program ended.+put back the files \(The disk .+ is full.\), nor start the version before \(The image cannot be had.\)/
  t.regex(failed.message ?? '', reported)
  const { id, code, message } = await deployment()
  t.deepEqual([code, message], [failed.code, failed.message])
  t.regex(await readLog(db, id), reported)
  const marked = await loadApp(db, app.id)
  t.deepEqual(problemOf(marked!), { code: 'RESTORE_INTERRUPTED', message: failed.message! })
  const lane = { workflowId: '', status: 'COMPLETED', failedTasks: 0, url: null }
  const explained = explanation((await readOperationStory(db, operationId, 9))!, lane, new Date())
  t.regex(
    explained,
    /put back the files \(The disk .+ is full.\)[\s\S]+marked as incompletely rolled back[\s\S]+berth ops clear/,
  )
  t.is((await (await push(app)).end()).state, 'success')
  t.is(problemOf((await loadApp(db, app.id))!), undefined)
})

test('a failed installation does not touch the serving version', async t => {
  const { running, push, steps, behave, client, db } = await kit
  const app = await running()
  behave(app, { install: 'fails' })
  const { end, deployment } = await push(app)
  t.like(await end(), { state: 'error', code: 'BUILD_FAILED' })
  t.like(await deployment(), { state: 'error', code: 'BUILD_FAILED' })
  t.deepEqual(await steps(app, 3), ['prepareRelease 2', 'installDependencies 2', 'discardRelease 2'])
  t.like(await loadApp(db, app.id), { release: 1, status: 'running' })
  t.is(await readCacheVersion(db, app.id), 0)
  await keepHistory(client, 'deploy-failed-install', app.id)
})

test('a deploy that is cancelled while it builds is recorded only after the build has confirmed its end', async t => {
  const { running, push, steps, behave, lanes, client, db } = await kit
  const app = await running()
  const plan = behave(app, { install: 'runs', pauseAt: 'installDependencies 2', confirmMs: 800 })
  const { end, deployment, operationId } = await push(app)
  await plan.reached
  const asked = { operationId, actor: 'operator:ana' }
  t.is(await transaction(db, trx => cancelOperation(trx, asked)), 'requested')
  await lanes.wake(app.id, app.owner_id)
  t.like(await end(), { state: 'cancelled', code: 'DEPLOY_CANCELLED', message: 'Cancelled by an operator.' })
  const ended = await deployment()
  t.like(ended, { state: 'error', code: 'DEPLOY_CANCELLED' })
  t.true(ended.finished_at!.getTime() >= plan.confirmedAt, 'the build was still running')
  t.true(plan.confirmedAt > 0)
  t.is((await steps(app, 3)).at(-1), 'discardRelease 2')
  t.like(await loadApp(db, app.id), { release: 1, status: 'running' })
  await keepHistory(client, 'deploy-cancelled', app.id)
})

test('a cancellation from before the deploy started is honoured too', async t => {
  const { running, push, behave, db } = await kit
  const app = await running()
  behave(app, { pauseAt: 'prepareRelease 2' })
  const { end } = await push(app, {}, id =>
    db('operations')
      .where({ id })
      .update({ state: 'running', started_at: new Date(), cancel_requested_at: new Date(), cancel_requested_by: 'x' }),
  )
  t.like(await end(), { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
})

test('newer pushes supersede waiting ones of the same branch; running ones continue, and all stay visible', async t => {
  const { running, push, behave, client, db } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'prepareRelease 2' })
  const first = await push(app)
  await plan.reached
  const second = await push(app)
  const other = await push(app, { branch: 'next' })
  const third = await push(app)
  t.deepEqual(third.superseded, [(await second.deployment()).id])
  plan.open()
  t.like(await second.end(), { state: 'cancelled', code: 'DEPLOY_SUPERSEDED' })
  t.like(await second.deployment(), { state: 'error', code: 'DEPLOY_SUPERSEDED', superseded_by: third.deploymentId })
  for (const { end } of [first, other, third]) t.is((await end()).state, 'success')
  t.is((await loadApp(db, app.id))?.release, 5)
  t.is((await db('deployments').where({ app_id: app.id })).length, 5)
  await keepHistory(client, 'deploy-superseded', app.id)
})

test('a deletion waits for no build, and operations behind it end with the reason', async t => {
  const { running, push, behave, client, db, run } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'prepareRelease 2' })
  const first = await push(app)
  await plan.reached
  const second = await push(app, { branch: 'next' })
  t.is((await run.command(app, 'delete')).state, 'success')
  t.is((await first.end()).state, 'cancelled')
  t.like(await first.deployment(), { state: 'error', code: 'DEPLOY_CANCELLED' })
  t.like(await second.deployment(), { state: 'error', code: 'APP_NOT_FOUND' })
  t.is(await loadApp(db, app.id), undefined)
  await keepHistory(client, 'deploy-deleted', app.id)
})

test('start, stop and restart are answered while a deploy builds', async t => {
  const { running, push, behave, client, db, run } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'prepareRelease 2' })
  const { end } = await push(app)
  await plan.reached
  for (const verb of ['stop', 'start', 'restart'] as const) t.is((await run.command(app, verb)).state, 'success', verb)
  t.is((await run.command(app, 'stop')).state, 'success')
  plan.open()
  t.is((await end()).state, 'success')
  t.like(await loadApp(db, app.id), { release: 2, status: 'running', desired_state: 'running' })
  await keepHistory(client, 'deploy-beside-commands', app.id)
})

test('a command during the change of versions waits for its end, or is answered that it will never run', async t => {
  const { running, push, behave, run } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'passHealthGate 2' })
  const { end } = await push(app)
  await plan.reached
  const stop = run.command(app, 'stop')
  await sleep(500)
  const queued = await run.last(app)
  t.is(queued?.state, 'queued', 'not begun: it can still expire when its caller has waited long enough')
  plan.open()
  t.is((await end()).state, 'success')
  t.is((await stop).state, 'success')
})

test('deploys of one application stay in order', async t => {
  const { running, push, steps } = await kit
  const app = await running()
  const pushes = [await push(app), await push(app, { branch: 'next' })]
  for (const { end } of pushes) t.is((await end()).state, 'success')
  const numbers = (await steps(app, 14))
    .filter(step => !/^(stopApp|removeContainer)/.test(step))
    .map(step => step.at(-1))
  t.deepEqual(numbers, [...numbers].sort())
})

test('restart=false places the files and leaves the program as it is', async t => {
  const { running, push, steps, client, db } = await kit
  const app = await running()
  const { end, deployment } = await push(app, { restart: false })
  t.is((await end()).state, 'success')
  t.deepEqual(await steps(app, 3), ['prepareRelease 2', 'placeFiles 2', 'lendDependencies 2'])
  t.is((await deployment()).state, 'success')
  t.is((await loadApp(db, app.id))?.release, 1)
  t.is(await readCacheVersion(db, app.id), 1, 'the release that serves has other files')
  t.is((await (await push(app)).end()).state, 'success')
  t.true((await steps(app, 10)).includes('removeContainer 1'))
  await keepHistory(client, 'deploy-without-restart', app.id)
})

test('a configuration is adopted with its memory reserved, and reverted when the deploy fails', async t => {
  const { running, push, behave, steps, client, db } = await kit
  const app = await running()
  const config = configFile({ memoryMb: 1024, main: 'other.js', subdomain: app.subdomain })
  const plan = behave(app, { pauseAt: 'passHealthGate 2', unhealthy: 2 })
  const failing = await push(app, { config })
  await plan.reached
  t.is(await usedMemoryMb(db, app.owner_id), 1024)
  plan.open()
  t.is((await failing.end()).code, 'HEALTH_CHECK_FAILED')
  t.like(await loadApp(db, app.id), { ram_mb: 512, main: 'index.js' })
  t.is(await readCacheVersion(db, app.id), 1, 'it may have answered with files of the failed release')
  t.is((await (await push(app, { config })).end()).state, 'success')
  t.like(await loadApp(db, app.id), { ram_mb: 1024, main: 'other.js', cpu: 1 })
  behave(app, { install: 'runs' })
  const greedy = await push(app, { config: configFile({ memoryMb: 8192, subdomain: app.subdomain }) })
  t.like(await greedy.end(), {
    ...{ state: 'error', code: 'INSUFFICIENT_MEMORY' },
    message: 'MEMORY requires 7168 MB more; the plan has 3072 MB left.',
  })
  const ofGreedy = async () => (await steps(app, 0)).filter(step => step.endsWith(' 4'))
  await comesTrue(async () => (await ofGreedy()).includes('discardRelease 4'))
  t.deepEqual(await ofGreedy(), ['prepareRelease 4', 'discardRelease 4'], 'nobody waits for a build to read that')
  t.like(await loadApp(db, app.id), { ram_mb: 1024, release: 3, status: 'running' })
  await keepHistory(client, 'deploy-configured', app.id)
})

test('a deploy waits for a host that is lost in any step, and repeats the step', async t => {
  const { running, push, behave, client, db } = await kit
  const app = await running({ subdomain: null })
  const failing = [
    ...(['prepareRelease', 'installDependencies', 'placeFiles', 'stopApp', 'startRelease', 'passHealthGate'] as const),
  ]
  behave(app, { install: 'runs', lostIn: new Set(failing) })
  t.is((await (await push(app)).end()).state, 'success')
  t.like(await loadApp(db, app.id), { release: 2, status: 'running' })
  await keepHistory(client, 'deploy-host-lost', app.id)
})

test('a failed deploy whose host is lost waits for it to put the files back, and no other operation runs meanwhile', async t => {
  const { running, push, steps, behave, client, db, run } = await kit
  const app = await running()
  const plan = behave(app, { unhealthy: 2, away: true })
  const { end, deployment, operationId } = await push(app)
  await plan.reached
  const stop = run.command(app, 'stop')
  const tries = async () => (await steps(app, 0)).filter(step => step === 'restoreFiles 2').length
  const words = 'The files that the deploy had replaced could not be put back: Placing the files was cut off.'
  for (const until = Date.now() + 60_000; (await tries()) < 5 && Date.now() < until; ) await sleep(100)
  t.like(await operations.findOperation(db, operationId), { state: 'running', step: operations.stuckGoingBack(words) })
  t.true(await operations.isBusy(db, app.id), 'the host watch keeps away')
  t.is((await run.last(app))?.state, 'queued', 'the stop waits, and can still be cancelled')
  t.like(await loadApp(db, app.id), { release: 1, status: 'running' })
  plan.open()
  t.like(await end(), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.like(await deployment(), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.is((await stop).state, 'success')
  await keepHistory(client, 'deploy-host-lost-going-back', app.id)
})

for (const step of ['prepareRelease', 'placeFiles', 'stopApp', 'startRelease', 'passHealthGate'])
  test(`Temporal forgets a deploy in ${step}: it runs again from the beginning, once`, async t => {
    const { running, push, behave, client, db, events } = await kit
    const app = await running({ subdomain: null })
    const plan = behave(app, { pauseAt: `${step} ${step === 'stopApp' ? 1 : 2}` })
    const { end, deployment, operationId } = await push(app)
    await plan.reached
    await client.workflow.getHandle(laneId(app.id)).terminate('forgotten')
    plan.open()
    await db('operations')
      .where({ id: operationId })
      .update({ started_at: new Date(Date.now() - 60_000) })
    t.is((await end()).state, 'success')
    t.like(await loadApp(db, app.id), { release: 2, status: 'running' })
    t.deepEqual(await events(await deployment()), ['pending', 'clone', 'commit', 'restarting', 'success'])
  })

test('Temporal forgets a deploy that had adopted its configuration, and it fails later: the previous configuration is back', async t => {
  const { running, push, behave, client, db, programs } = await kit
  const app = await running({ subdomain: null })
  const plan = behave(app, { pauseAt: 'passHealthGate 2', unhealthy: 2 })
  const { end, operationId } = await push(app, { config: configFile({ memoryMb: 1024, subdomain: null }) })
  await plan.reached
  await client.workflow.getHandle(laneId(app.id)).terminate('forgotten')
  plan.open()
  await db('operations')
    .where({ id: operationId })
    .update({ started_at: new Date(Date.now() - 60_000) })
  t.is((await end()).code, 'HEALTH_CHECK_FAILED')
  t.is((await loadApp(db, app.id))?.ram_mb, 512)
  t.is(programs(app).at(-1)?.ramMb, 512, 'the old version was started with its own memory')
  t.false(await operations.isBusy(db, app.id))
})
