import { Connection } from '@temporalio/client'
import test from 'ava'
import { prepareNamespace } from '../../workers/temporal/temporal-namespace.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram, slowProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: {}, worker: false })
const living: Entry[] = []

test.serial.after.always('end the processes', async () => {
  for (const entry of living) await entry.kill('SIGKILL')
})

/** Worker and host as processes, on a Temporal that may know nothing of what was before. */
async function startProcesses(namespace: string): Promise<void> {
  const platform = await started
  platform.clearLater('a')
  const own = { TEMPORAL_NAMESPACE: namespace }
  living.push(startEntry('worker', { ...platform.base.settings, ...own }))
  living.push(startEntry('host', platform.hostSettings('a', own)))
  await Promise.all(living.map(entry => entry.ready))
}

test('when Temporal loses everything, queued and running operations still end', async t => {
  t.timeout(170_000)
  const platform = await started
  platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
  const connection = await Connection.connect({ address: platform.base.config.temporalAddress })
  t.teardown(() => connection.close())
  const fresh = `fresh-${platform.hostId('a')}`
  await prepareNamespace(connection, fresh)

  await startProcesses('default')
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  const stopped = await platform.deploy(ana, nodeProgram('stopped'))
  const deleted = await platform.deploy(ana, nodeProgram('deleted'))
  const running = await platform.upload(ana, slowProgram('was running', 4))
  const building = async () => (await platform.remains()).containers.includes(`berth-${running.id}-1-build`)
  await platform.until(building, 20, 'it is being built')
  for (const entry of living.splice(0)) await entry.kill('SIGKILL')

  const queued = await platform.upload(ana, nodeProgram('was queued'))
  t.is(queued.status, 200)
  const stop = as.post(`/v2/apps/${stopped.id}/stop`)
  const remove = as.delete(`/v2/apps/${deleted.id}`)
  await startProcesses(fresh)

  t.is((await stop).status, 200)
  t.is((await remove).status, 200)
  t.like(await platform.ended(queued.operationId), { state: 'success', code: null })
  t.like(await platform.ended(running.operationId), { state: 'success', code: null })
  await platform.serves(queued.domain, 'was queued')
  await platform.serves(running.domain, 'was running')
  t.like(await platform.row(stopped.id), { status: 'exited', desired_state: 'stopped' })
  t.deepEqual(
    (await platform.remains()).containers.sort(),
    [stopped, queued, running].map(({ id }) => `berth-${id}-1`).sort(),
  )
  t.is((await platform.db('operations').whereIn('state', ['queued', 'running'])).length, 0)
})
