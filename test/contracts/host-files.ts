import type { SerialFn } from 'ava'
import { loadApp } from '../../db/apps/apps.ts'
import { transaction } from '../../db/database.ts'
import { findDeploymentByOperation, readLog } from '../../db/deploys/deployments.ts'
import { waitForSlot } from '../../db/operations/build-slots.ts'
import { cancelOperation } from '../../db/operations/operator-acts.ts'
import { problemOf } from '../../policy/apps/app-problems.ts'
import { showUndoFrom } from '../../policy/apps/undo-attempts.ts'
import { comesTrue } from '../kit/comes-true.ts'
import type { MakeScene } from './host-scene.ts'

/** The part of the contract about files. */
export function hostFilesContract(test: SerialFn, name: string, scene: MakeScene): void {
  test(`${name}: a creation brings files and container, and undoes all of it`, async t => {
    const { ask, standing, release, db, app, operationId } = await scene('create')
    const state = async () => (await findDeploymentByOperation(db, operationId))?.state
    t.deepEqual(await standing(), { containers: {}, files: null, disk: false, busy: 0 })
    const prepare = (attempt = 1) => ask(({ prepareRelease }) => prepareRelease(release), { attempt })
    const { started, ...prepared } = await prepare()
    t.deepEqual(prepared, { needsInstall: false, placed: true })
    t.is(await state(), 'restarting')
    t.is((await loadApp(db, app.id))?.status, 'starting')
    t.like((await prepare(2)).started, { containerId: started!.containerId, hostPort: started!.hostPort })
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, started!)), null)
    const serving = { containers: { 1: true }, files: 1, disk: true, busy: 0 }
    t.deepEqual(await standing(), serving)
    await ask(({ installDependencies }) => installDependencies(release), {})
    // For lanes of an older version, and for one whose container was removed.
    for (const attempt of [1, 2]) await ask(({ placeFiles }) => placeFiles(release), { attempt })
    for (const attempt of [1, 2]) await ask(({ removeContainers }) => removeContainers(release), { attempt })
    t.deepEqual(await standing(), { ...serving, containers: {} })
    const again = await ask(({ startRelease }) => startRelease(release))
    t.is(await ask(({ passHealthGate }) => passHealthGate(release, again)), null)
    t.deepEqual(await standing(), serving)
    for (const attempt of [1, 2]) await ask(({ removeFiles }) => removeFiles(release), { attempt })
    t.deepEqual(await standing(), { containers: {}, files: null, disk: false, busy: 0 })
  })

  test(`${name}: a creation whose container cannot be started leaves what its undo removes`, async t => {
    const { ask, failure, standing, suffer, release } = await scene('create')
    await suffer('no image')
    const prepare = ({ prepareRelease }: Parameters<Parameters<typeof ask>[0]>[0]) => prepareRelease(release)
    t.like(await failure(prepare), { type: 'DEPLOY_FAILED', final: true })
    t.deepEqual(await standing(), { containers: {}, files: 1, disk: true, busy: 0 })
    await suffer(null)
    t.truthy((await ask(prepare, { attempt: 2 })).started)
    t.deepEqual(await standing(), { containers: { 1: true }, files: 1, disk: true, busy: 0 })
    await ask(({ removeFiles }) => removeFiles(release))
    t.deepEqual(await standing(), { containers: {}, files: null, disk: false, busy: 0 })
  })

  test(`${name}: files are placed and put back repeatedly, and running containers stay`, async t => {
    const { ask, failure, standing, suffer, release, end } = await scene('deploy')
    const files = async () => {
      const { containers, files } = await standing()
      t.deepEqual(containers, { 1: true })
      return files
    }
    for (const attempt of [1, 2])
      t.deepEqual(await ask(({ prepareRelease }) => prepareRelease(release), { attempt }), { needsInstall: false })
    await ask(({ restoreFiles }) => restoreFiles(release))
    t.is(await files(), 1, 'nothing was placed, so nothing is put back')
    for (const [trouble, type, final] of [
      ['the disk is full', 'CONTAINER_INSUFFICIENT_DISK_SPACE', true],
      ['it is cut off', 'Error', false],
    ] as const) {
      await suffer(trouble)
      t.like(await failure(({ placeFiles }) => placeFiles(release)), { type, final })
      t.like(await failure(({ restoreFiles }) => restoreFiles(release)), { type, final })
      await suffer(null)
    }
    for (const attempt of [1, 2]) await ask(({ placeFiles }) => placeFiles(release), { attempt })
    t.is(await files(), 2)
    for (const attempt of [1, 2]) await ask(({ restoreFiles }) => restoreFiles(release), { attempt })
    t.is(await files(), 1)
    await ask(({ placeFiles }) => placeFiles(release))
    t.is(await files(), 2, 'a lane that starts over places them again')
    await ask(({ settleFiles }) => settleFiles(release))
    await ask(({ restoreFiles }) => restoreFiles(release))
    t.is(await files(), 2, 'settled is settled')
    await end()
    await ask(({ settleFiles }) => settleFiles(release))
    t.is(await files(), 2)
  })

  test(`${name}: a release that never serves is removed, also after its deploy has ended`, async t => {
    const { ask, standing, release, db, operationId } = await scene('deploy')
    await ask(({ discardRelease }) => discardRelease(release))
    await ask(({ prepareRelease }) => prepareRelease(release))
    await ask(({ placeFiles }) => placeFiles(release))
    await db('operations').where({ id: operationId }).update({ state: 'error' })
    for (const attempt of [1, 2]) await ask(({ discardRelease }) => discardRelease(release), { attempt })
    t.deepEqual(await standing(), { containers: { 1: true }, files: 1, disk: true, busy: 0 })
  })

  test(`${name}: files that cannot be put back are reported, and given up only on request`, async t => {
    const { ask, failure, suffer, release, db, app, operationId } = await scene('deploy')
    const restore = (attempt: number) => failure(({ restoreFiles }) => restoreFiles(release), { attempt })
    const problem = async () => problemOf((await loadApp(db, app.id))!)?.code
    await suffer('it is cut off')
    t.like(await restore(showUndoFrom - 1), { final: false })
    t.is(await problem(), undefined)
    t.like(await restore(showUndoFrom), { final: false })
    t.is(await problem(), 'RESTORE_INTERRUPTED')
    await suffer(null)
    await ask(({ restoreFiles }) => restoreFiles(release), { attempt: showUndoFrom + 1 })
    t.is(await problem(), undefined)
    await suffer('it is cut off')
    t.like(await restore(showUndoFrom), { final: false })
    await transaction(db, trx => cancelOperation(trx, { operationId, actor: 'operator:ana' }))
    t.like(await restore(showUndoFrom + 1), { type: 'RESTORE_INTERRUPTED', final: true })
  })

  test(`${name}: an install step takes a slot, fails with its own code, ends when it is cancelled, and may be repeated`, async t => {
    const { ask, failure, standing, suffer, release, db, operationId } = await scene('deploy', { installs: true })
    const install = ({ installDependencies }: Parameters<Parameters<typeof ask>[0]>[0]) => installDependencies(release)
    const waits = async () => (await findDeploymentByOperation(db, operationId))?.waiting_for
    for (const attempt of [1, 2])
      t.deepEqual(await ask(({ prepareRelease }) => prepareRelease(release), { attempt }), { needsInstall: true })
    await waitForSlot(db, operationId, release.hostId)
    t.truthy(await waits())
    await suffer('the install step fails')
    const failed = await failure(install)
    t.like(failed, { type: 'BUILD_FAILED', final: true })
    t.is(failed?.message, 'Installing the dependencies ended with exit code 1.')
    t.regex(await readLog(db, release.deploymentId!), /no such package\n$/)
    t.falsy(await waits())
    await suffer('the engine is away')
    t.like(await failure(install), { type: 'ACTION_FAILED', final: false })

    await suffer('it never ends')
    const lane = new AbortController()
    const cancelled = failure(install, { signal: lane.signal })
    await comesTrue(async () => (await standing()).busy === 1)
    lane.abort()
    t.like(await cancelled, { type: 'cancelled' })
    t.is((await standing()).busy, 0, 'it has ended before it says so')

    await suffer(null)
    for (const attempt of [1, 2]) await ask(install, { attempt })
    t.deepEqual(await standing(), { containers: { 1: true }, files: 1, disk: true, busy: 0 })
  })

  test(`${name}: the serving release uses the dependencies of a later one, and keeps running meanwhile`, async t => {
    const { ask, failure, standing, release, before } = await scene('deploy')
    await ask(({ prepareRelease }) => prepareRelease(release))
    for (const attempt of [1, 2]) await ask(({ lendDependencies }) => lendDependencies(release, before), { attempt })
    const wrong = await failure(({ lendDependencies }) => lendDependencies(release, { number: 2 }))
    t.like(wrong, { type: 'ACTION_FAILED', final: true })
    t.deepEqual((await standing()).containers, { 1: true })
  })
}
