import test from 'ava'
import { transaction } from '../../db/database.ts'
import { cancelOperation } from '../../db/operations/operator-acts.ts'
import { openTemporal } from '../../workers/connect.ts'
import { laneRun } from '../../workers/temporal/lanes.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram, slowProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform({ hosts: {} })

test('a build that outlived its host and its deploy is removed when the host is back', async t => {
  t.timeout(300_000)
  const platform = await started
  platform.clearLater('a')
  const host = startEntry('host', platform.hostSettings('a'))
  await host.ready
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  const app = await platform.deploy(ana, nodeProgram('first'))
  const form = new FormData()
  const zip = zipOf(slowProgram('never', 86_400).files)
  form.append('file', new Blob([new Uint8Array(zip)]), 'next.zip')
  const committed = await as.post(`/v2/apps/${app.id}/commit`, form)
  t.is(committed.status, 200, committed.text)
  const { operation_id: operationId } = await platform.db('deployments').where({ app_id: app.id, release: 2 }).first()
  const build = bareDocker.getContainer(`berth-${app.id}-2-build`)
  // Not the container before it, which asks the image for its registry.
  const runs = async () => {
    const { Processes } = await build.top().catch(() => ({ Processes: null }))
    return (Processes ?? []).flat().some((text: string) => text.includes('sleep 86400'))
  }
  await platform.until(runs, 120, 'it is being built')

  await host.kill('SIGKILL')
  await transaction(platform.db, trx => cancelOperation(trx, { operationId, actor: 'operator:ana' }))
  await platform.api.services.lanes.wake(app.id, ana.id)
  t.not((await platform.ended(operationId, 180)).state, 'success')
  const client = openTemporal(platform.base.config)
  t.teardown(() => client.connection.close())
  const gaveUp = async () => (await laneRun(client, app.id))?.status !== 'RUNNING'
  await platform.until(gaveUp, 120, 'its lane waits no longer for the host to remove it')
  t.true(await runs(), 'nobody was there to end it')

  await platform.startHost('a')
  await platform.until(async () => !(await build.inspect().catch(() => null)), 60, 'it is removed')
  t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])
  await platform.serves(app.domain, 'first')
})
