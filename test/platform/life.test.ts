import { once } from 'node:events'
import { createServer } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { pause } from '../../lib/async/loop.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram } from '../kit/programs.ts'
import { engineFact } from '../kit/servers/docker.ts'

const started = testPlatform({ hosts: { a: { HOST_DISK_MBPS: '37', HOST_DISK_IOPS: '1900' } } })
/** Of a container with volumes of their own, its limits on the application's disk as the settings have them. */
async function assertDiskLimits(t: ExecutionContext, container: string): Promise<void> {
  const { HostConfig } = await engineFact(`/containers/${container}/json`)
  const rates = (name: string) =>
    (HostConfig[name] ?? [])
      .filter(({ Path }: { Path: string }) => /^\/dev\/loop\d+$/.test(Path))
      .map(({ Rate }: { Rate: number }) => Rate)
  for (const way of ['Read', 'Write']) {
    t.deepEqual(rates(`BlkioDevice${way}Bps`), [37 * 1024 * 1024], container)
    t.deepEqual(rates(`BlkioDevice${way}IOps`), [1900], container)
  }
}
const empty = { containers: [], networks: [], volumes: [], mounts: [] }

test.serial(
  'an application is inspected, stopped, started, restarted and deleted, and then nothing is left',
  async t => {
    t.timeout(150_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const as = platform.api.as(ana)
    const app = await platform.deploy(ana, nodeProgram('at your service'), { MEMORY: '1024' })
    t.like(app.operation, { state: 'success' })
    await platform.serves(app.domain, 'at your service')
    await assertDiskLimits(t, `berth-${app.id}-1`)
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
    const isClosed = async () => (await platform.page(app.domain)).status === 404
    await platform.until(isClosed, 30, 'its address is closed with the answer')
    t.deepEqual(await codeOf('stop'), [409, 'CONTAINER_ALREADY_STOPPED'])
    t.like((await as.get(`/v2/apps/${app.id}/status`)).body.response, { status: 'exited', running: false })
    t.is((await as.get(`/v2/apps/${app.id}/logs`)).status, 200, 'its logs stay')
    t.is((await post('start')).status, 200)
    await platform.serves(app.domain, 'at your service', 30)
    const before = await platform.row(app.id)
    t.is((await post('restart')).status, 200)
    await platform.serves(app.domain, 'at your service', 30)
    const after = (await platform.row(app.id))!
    t.true(after.started_at! > before!.started_at!)
    t.is(after.host_port, before!.host_port, 'its route stays')
    t.is((await platform.remains()).containers.length, 1)

    t.is((await platform.upload(ana, nodeProgram('more'))).body.code, 'FEW_MEMORY')
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
    t.is((await as.get(`/v2/apps/${app.id}`)).body.code, 'APP_NOT_FOUND')
    await platform.until(isClosed, 30, 'its address is closed')
    await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
    t.deepEqual(await platform.remains(), empty)
    t.deepEqual(await platform.base.proxy.edge.listRoutes(), [])
    t.deepEqual(await platform.storedBodies(), [])

    const next = await platform.deploy(ana, nodeProgram('the memory is free'), { MEMORY: '1024' })
    t.is(next.operation.state, 'success')
    t.is((await as.delete(`/v2/apps/${next.id}`)).status, 200)
  },
)

test.serial('a deletion does not wait for the deployment in progress', async t => {
  t.timeout(150_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  // Its installation would take ten minutes.
  const slow = {
    main: 'index.js',
    files: { 'index.js': '', 'package.json': '{"scripts":{"preinstall":"sleep 600"}}' },
  }
  const app = await platform.upload(ana, slow)
  t.is(app.status, 200)
  await platform.until(
    async () => (await platform.remains()).containers.some(name => name.endsWith('-build')),
    60,
    'it is being built',
  )
  await assertDiskLimits(t, `berth-${app.id}-1-build`)
  t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
  t.like(await platform.ended(app.operationId), { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
  await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
  t.deepEqual(await platform.remains(), empty)
  t.deepEqual(await platform.storedBodies(), [])
})

test.serial('a port that another application gets does not lead visitors there by the former name', async t => {
  t.timeout(150_000)
  const platform = await started
  const had = await platform.deploy(await platform.api.makeUser(), nodeProgram('had it'))
  const other = await platform.deploy(await platform.api.makeUser(), nodeProgram('another'))
  await platform.serves(had.domain, 'had it')
  const routes = await platform.base.proxy.edge.listRoutes()
  const routeOf = ({ id }: { id: string }) => routes.find(({ appId }) => appId === id)!
  const { engine } = platform.hosts.get('a')!.parts
  for (const app of [had, other]) {
    const { address, port } = routeOf(app)
    t.like(await engine.inspect(`berth-${app.id}-1`), { hostAddress: address, hostPort: port })
  }
  t.not(routeOf(had).address, routeOf(other).address)

  // Its container ends, and its number is given to the other one, before anybody has noticed.
  const stranger = createServer((_, answer) => answer.end('a stranger'))
  t.teardown(() => stranger.close())
  const seen = new Set<string>()
  let over = false
  const asking = (async () => {
    for (; !over; await pause(2)) seen.add((await platform.page(had.domain).catch(() => null))?.body ?? '')
  })()
  await engine.stop(`berth-${had.id}-1`, 5)
  if (routeOf(had).port !== routeOf(other).port) {
    stranger.listen(routeOf(had).port, routeOf(other).address)
    await once(stranger, 'listening')
  }
  await platform.until(async () => (await platform.page(had.domain)).status === 404, 60, 'its route is removed')
  over = true
  await asking
  t.deepEqual(
    [...seen].filter(body => /stranger|another/.test(body)),
    [],
  )
  t.is((await platform.page(other.domain)).body, 'another')
})
