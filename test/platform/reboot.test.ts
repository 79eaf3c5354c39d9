import { execFileSync } from 'node:child_process'
import test from 'ava'
import { labels } from '../../activities/containers/port.ts'
import { buildContainer, buildNetwork, tenantNetwork } from '../../activities/containers/spec.ts'
import type { Release } from '../../activities/releases/release.ts'
import { newAppId, newId } from '../../policy/ids.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform()

const worker = { main: 'index.js', files: { 'index.js': 'console.log("at work"); setInterval(() => {}, 1000)' } }
const writer = {
  main: 'index.js',
  files: {
    'index.js': `const fs = require('node:fs')
fs.appendFileSync('starts.txt', 'x')
require('node:http').createServer((_, answer) => answer.end(fs.readFileSync('starts.txt'))).listen(process.env.PORT)`,
  },
}

test.serial('a reboot brings every application back to its desired state', async t => {
  t.timeout(180_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  const web = await platform.deploy(ana, writer)
  const background = await platform.deploy(ana, worker, { SUBDOMAIN: null, MEMORY: '256' })
  const stopped = await platform.deploy(ana, nodeProgram('stopped'))
  t.is((await as.post(`/v2/apps/${stopped.id}/stop`)).status, 200)
  t.is((await platform.page(web.domain)).body, 'x')

  // Like a power cut: the host process, every container and every mount have ended unobserved.
  await platform.hosts.get('a')?.stop()
  const remains = await platform.remains()
  await Promise.all(
    remains.containers.map(name =>
      bareDocker
        .getContainer(name)
        .kill()
        .catch(() => {}),
    ),
  )
  for (const place of remains.mounts) execFileSync('umount', ['--lazy', place])
  t.is((await platform.remains()).mounts.length, 0)

  // The proxy is down and may have former ports: until it is updated, only applications without a port are started.
  const { proxy } = platform.base
  await proxy.kill('SIGKILL')
  await platform.startHost('a', {}, { bootId: 'another-boot' })
  const statusOf = async (id: string) => (await as.get(`/v2/apps/${id}/status`)).body.response
  await platform.until(async () => (await statusOf(background.id)).running, 60, 'the one without a port is back')
  const queued = platform.db('operations').where({ actor: 'host-watch', target_id: web.id })
  t.true((await queued).length > 0)
  const other = await platform.deploy(await platform.api.makeUser(), worker, { SUBDOMAIN: null, MEMORY: '256' })
  t.false((await bareDocker.getContainer(`berth-${web.id}-1`).inspect()).State.Running)
  await proxy.start()
  await platform.until(async () => (await platform.page(web.domain)).status === 200, 60, 'the web application is back')
  t.is((await platform.page(web.domain)).body, 'xx', 'with its files')
  t.like(await statusOf(background.id), { status: 'running', exit: undefined })
  t.like(await statusOf(stopped.id), { status: 'exited', running: false })
  t.is((await platform.page(stopped.domain)).status, 404)
  t.deepEqual((await platform.remains()).containers.sort(), [...remains.containers, `berth-${other.id}-1`].sort())
  // A start that waited for the proxy for longer than a command may take was started again.
  const done = () => platform.db('operations').where({ actor: 'host-watch', state: 'success' }).pluck('kind')
  await platform.until(async () => (await done()).length >= 2, 30, 'both starts have succeeded')
  t.deepEqual(await done(), ['start', 'start'])
})

test.serial(
  'files and containers of no application are set aside, remains of a deletion are removed, and nothing else',
  async t => {
    t.timeout(90_000)
    const platform = await started
    const { parts, id } = platform.hosts.get('a')!
    // The engine lists networks in an order of its own.
    const remains = async () => {
      const { networks, ...others } = await platform.remains()
      return { ...others, networks: networks.toSorted() }
    }
    const before = await remains()
    const ownerId = '1'.repeat(18)
    const release = {
      ...{
        appId: newAppId(),
        ownerId,
        hostId: id,
        number: 1,
        uid: 10_001,
        ramMb: 256,
        reservedMb: 256,
        cpus: 1,
        language: 'javascript',
      },
      runtimeVersion: '22',
    } as Release
    const network = tenantNetwork(ownerId, id)
    const foreign = { ...buildContainer(release, '/tmp', 'sleep 300', parts.traits), name: `berth-foreign-${id}` }
    for (const of of [network, buildNetwork(id)]) await parts.engine.ensureNetwork(of)
    const build = buildContainer(release, '/tmp', 'sleep 300', parts.traits)
    const app = {
      ...build,
      name: `berth-${release.appId}-1`,
      labels: { ...build.labels, [labels.role]: 'app' },
      network: network.name,
    }
    const untouched = { ...foreign, labels: { 'some.label': 'of-somebody' }, network: 'none' }
    t.teardown(() => parts.engine.remove(untouched.name))
    for (const spec of [untouched, build, app]) {
      await parts.engine.create(spec)
      await parts.engine.start(spec.name)
    }
    await parts.volumes.ensure(release.appId, 16, 10_001)
    const runs = async (name: string) => (await parts.engine.inspect(name))?.running
    await platform.until(
      async () =>
        !(await runs(app.name)) && !(await runs(build.name)) && !(await parts.volumes.list()).includes(release.appId),
      40,
      'strays are stopped and set aside',
    )
    t.is((await platform.remains()).containers.length, before.containers.length + 2, 'and not removed')

    // From here on the database knows it as an application that was deleted.
    const operation = { id: newId(), target_id: release.appId, kind: 'delete', owner_id: ownerId, actor: ownerId }
    await platform.db('operations').insert({ ...operation, state: 'success' })
    await platform.until(
      async () => (await platform.remains()).networks.length === before.networks.length,
      40,
      'what a deletion left is removed, with its network',
    )
    t.deepEqual(await remains(), before)
    await parts.volumes.bringBack(release.appId)
    t.deepEqual(await remains(), before, 'nothing is left aside')
    t.true(await runs(untouched.name))
  },
)
