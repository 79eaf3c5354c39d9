import test from 'ava'
import { makeNoise, neighbour } from '../kit/noise.ts'
import { testPlatform } from '../kit/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: { a: { HOST_MEMORY_MB: '32768' } }, settings: { HEALTH_GATE_SECONDS: '600' } })

test.serial('beside an account at its worst another one stops, starts, deploys and uploads as ever', async t => {
  t.timeout(600_000)
  const platform = await started
  const [ana, bob] = await Promise.all([platform.api.makeUser(), platform.api.makeUser()])
  const app = await platform.deploy(bob, nodeProgram('at your service'))
  t.is(app.operation.state, 'success')
  const noise = await makeNoise(platform, ana, { silent: 8 })
  const { stop, start, deploy, upload, remove } = neighbour(platform, bob, app)
  await t.notThrowsAsync(async () => {
    await stop()
    await start()
    await platform.serves(app.domain, 'at your service', 60)
    await deploy()
    await remove(await upload())
  })
  t.true(noise.inspected() > 0)
  t.true((await noise.gates()) >= 8)
  await noise.stop()
})
