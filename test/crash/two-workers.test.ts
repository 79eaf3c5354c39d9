import { randomBytes } from 'node:crypto'
import { Connection } from '@temporalio/client'
import test, { type ExecutionContext } from 'ava'
import { prepareNamespace } from '../../workers/temporal/temporal-namespace.ts'
import type { TestUser } from '../kit/actors/api.ts'
import { type Entry, isFrozen, startEntry } from '../kit/platform/entry.ts'
import { type Deployed, testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ worker: false })

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

async function worker(t: ExecutionContext, own: Record<string, string> = {}): Promise<Entry> {
  const entry = startEntry('worker', { ...(await started).base.settings, ...own })
  t.teardown(() => entry.kill('SIGKILL'))
  await entry.ready
  return entry
}

/** A deploy whose worker is frozen before it records that the release serves. */
async function standingStill(t: ExecutionContext) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const first = await worker(t, { CRASH_POINT: 'records.releaseServes:before', CRASH_SIGNAL: 'SIGSTOP' })
  const app = await platform.upload(ana, nodeProgram('survived'))
  t.is(app.status, 200, app.text)
  await platform.until(async () => isFrozen(first), 120, 'it stands still in the middle of the deploy')
  return { ana, first, app }
}

/** The deploy was ended by another one, and its owner has stopped the application since: the first wakes, and nothing changes. */
async function wakesTooLate(t: ExecutionContext, { ana, first, app }: { ana: TestUser; first: Entry; app: Deployed }) {
  const platform = await started
  t.like(await platform.ended(app.operationId, 150), { state: 'success', code: null })
  await platform.serves(app.domain, 'survived', 60)
  t.is((await platform.api.as(ana).post(`/v2/apps/${app.id}/stop`)).status, 200)
  const state = async () => ({
    app: await platform.row(app.id),
    operations: await platform.db('operations').where({ target_id: app.id }).orderBy('seq'),
    deployments: await platform.db('deployments').where({ app_id: app.id }),
    containers: (await platform.remains()).containers,
    routes: await platform.base.proxy.edge.listRoutes(),
  })
  const before = await state()
  t.like(before.app, { status: 'exited', desired_state: 'stopped' })
  first.child.kill('SIGCONT')
  first.child.kill('SIGTERM') // exits once its running steps have ended
  await first.ended
  t.deepEqual(await state(), before)
  t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
}

test.serial('a worker frozen in a deploy until another has ended it changes nothing more', async t => {
  t.timeout(300_000)
  const still = await standingStill(t)
  await worker(t)
  await wakesTooLate(t, still)
})

test.serial('a deploy continues in another Temporal: the first one changes nothing more', async t => {
  t.timeout(400_000)
  const platform = await started
  const { settings, config } = platform.base
  const namespace = `test-${randomBytes(4).toString('hex')}`
  const connection = await Connection.connect({ address: config.temporalAddress })
  await prepareNamespace(connection, namespace)
  await connection.close()
  const still = await standingStill(t)

  await platform.hosts.get('a')!.stop()
  const moved = { TEMPORAL_NAMESPACE: namespace }
  const host = startEntry('host', { ...platform.hostSettings('a'), ...moved })
  t.teardown(() => host.kill('SIGKILL'))
  await host.ready
  await worker(t, { ...settings, ...moved })
  await wakesTooLate(t, still)
})
