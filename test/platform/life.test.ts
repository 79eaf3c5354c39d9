import test from 'ava'
import { testPlatform } from '../kit/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform()
const empty = { containers: [], networks: [], volumes: [], mounts: [] }

test.serial(
  'an application is looked at, stopped, started, restarted and deleted, and then nothing is left',
  async t => {
    t.timeout(150_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const as = platform.api.as(ana)
    const app = await platform.deploy(ana, nodeProgram('at your service'), { MEMORY: '1024' })
    t.like(app.operation, { state: 'success' })
    await platform.serves(app.domain, 'at your service')
    const bodies = await platform.storedBodies()
    t.is(bodies.length, 1)

    const status = await as.get(`/v2/apps/${app.id}/status?rawData=true`)
    t.like(status.body.response, { status: 'running', running: true, exit: undefined })
    t.true(status.body.response.ram > 1 && status.body.response.ram < 1024, status.text)
    t.true(status.body.response.uptime > 0 && status.body.response.storage > 0, status.text)
    t.regex((await as.get(`/v2/apps/${app.id}/status`)).body.response.ram, /^\d+\.\d\/1024MB$/)
    t.like((await as.get('/v2/apps/status')).body.response, {
      running: true,
      applications: [{ id: app.id, running: true }],
    })
    t.is((await as.get(`/v2/apps/${app.id}/logs`)).body.response.logs, 'it starts\n')

    const post = (verb: string) => as.post(`/v2/apps/${app.id}/${verb}`)
    const codeOf = async (verb: string) => {
      const { status: number, body } = await post(verb)
      return [number, body.code]
    }
    t.deepEqual(await codeOf('start'), [409, 'CONTAINER_ALREADY_STARTED'])
    t.is((await post('stop')).status, 200)
    // A route that was being set at that moment is taken back a moment later.
    const isGone = async () => (await platform.page(app.domain)).status === 404
    await platform.until(isGone, 5, 'its address is gone with the answer')
    t.deepEqual(await codeOf('stop'), [409, 'CONTAINER_ALREADY_STOPPED'])
    t.like((await as.get(`/v2/apps/${app.id}/status`)).body.response, { status: 'exited', running: false })
    t.is((await as.get(`/v2/apps/${app.id}/logs`)).status, 200, 'its logs stay')
    t.is((await post('start')).status, 200)
    await platform.serves(app.domain, 'at your service', 5)
    const before = await platform.row(app.id)
    t.is((await post('restart')).status, 200)
    await platform.serves(app.domain, 'at your service', 5)
    t.true((await platform.row(app.id))!.started_at! > before!.started_at!)
    t.is((await platform.remains()).containers.length, 1)

    t.is((await platform.upload(ana, nodeProgram('more'))).body.code, 'FEW_MEMORY')
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
    t.is((await as.get(`/v2/apps/${app.id}`)).body.code, 'APP_NOT_FOUND')
    await platform.until(isGone, 5, 'its address is gone')
    await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
    t.deepEqual(await platform.remains(), empty)
    t.deepEqual(await platform.base.proxy.edge.listRoutes(), [])
    t.deepEqual(await platform.storedBodies(), [])

    const next = await platform.deploy(ana, nodeProgram('the memory is free'), { MEMORY: '1024' })
    t.is(next.operation.state, 'success')
    t.is((await as.delete(`/v2/apps/${next.id}`)).status, 200)
  },
)

test.serial('a deletion does not wait for the deployment that is under way', async t => {
  t.timeout(60_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  // Its installation would take a minute.
  const slow = {
    main: 'index.js',
    files: { 'index.js': '', 'package.json': '{"scripts":{"preinstall":"sleep 60"}}' },
  }
  const app = await platform.upload(ana, slow)
  t.is(app.status, 200)
  await platform.until(
    async () => (await platform.remains()).containers.some(name => name.endsWith('-build')),
    20,
    'it is being built',
  )
  const begun = Date.now()
  t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
  t.true(Date.now() - begun < 8000, `${Date.now() - begun} ms`)
  t.like(await platform.ended(app.operationId), { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
  await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
  t.deepEqual(await platform.remains(), empty)
  t.deepEqual(await platform.storedBodies(), [])
})
