import { readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { pause } from '../../lib/async/loop.ts'
import { diesAt } from '../kit/crash/crash-kit.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { type Deployed, testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram } from '../kit/programs.ts'
import { named } from '../kit/servers/origin.ts'

const started = testPlatform({ worker: false })

const containerOf = ({ id }: Deployed) => bareDocker.getContainer(`berth-${id}-1`)

/** Where the engine publishes a container. */
interface Published {
  HostIp: string
  HostPort: string
}

async function publishedAt(app: Deployed): Promise<Published> {
  const { NetworkSettings } = await containerOf(app).inspect()
  const [binding] = Object.values(NetworkSettings.Ports).flat()
  return binding!
}

/**
 * The same container, created by hand so that the engine publishes it where another one was. On 127.0.0.1 the port could belong to any
 * other program of the machine by now; no other program listens at the address of an application.
 */
async function makeOn(place: Published, app: Deployed): Promise<void> {
  const { Name, Config, HostConfig } = await containerOf(app).inspect()
  await containerOf(app).remove({ force: true })
  const bindings = Object.keys(HostConfig.PortBindings).map(exposed => [exposed, [place]])
  await bareDocker.createContainer({
    ...Config,
    name: Name.slice(1),
    HostConfig: { ...HostConfig, PortBindings: Object.fromEntries(bindings) },
  })
}

test('after a reboot that allocates the ports of several owners again, no name is ever answered by another one’s program', async t => {
  t.timeout(240_000)
  const platform = await started
  const { base, api } = platform
  const worker = await platform.startWorker()
  const say = (name: string) => `this is ${name}`
  const deployed = async (name: string) =>
    platform.deploy(await api.makeUser(), nodeProgram(say(name)), { MEMORY: '512' })
  const [a, b, e] = await Promise.all([deployed('a'), deployed('b'), deployed('e')])
  await worker.stop()

  // The power is cut during another creation: its program is healthy, and the proxy does not know its address yet.
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
  const armed = startEntry('worker', { ...base.settings, CRASH_POINT: 'edge.setRoute:before' })
  await armed.ready
  const d = await platform.upload(await api.makeUser(), nodeProgram(say('d')), { MEMORY: '512' })
  t.is(d.status, 200, d.text)
  await diesAt(t, armed, 'edge.setRoute:before')
  const apps = { a, b, d, e }
  await platform.hosts.get('a')?.stop()
  await base.proxy.kill('SIGKILL')
  const [placeA, placeD, placeE] = await Promise.all([a, d, e].map(publishedAt))
  await Promise.all(Object.values(apps).map(app => containerOf(app).kill()))

  // Each gets the address and port of another one, and the last one a port that another program has.
  const taken = await named('somebody else')
  t.teardown(() => taken.stop())
  await makeOn(placeA!, b)
  await makeOn(placeD!, a)
  await makeOn(placeE!, d)
  await makeOn({ HostIp: '127.0.0.1', HostPort: String(taken.port) }, e)

  const file = base.proxy.config.edge.routesFile
  writeFileSync(file, readFileSync(file, 'utf8').replace(/"boot":"[^"]+"/, '"boot":"of-before"'))
  await base.proxy.start()
  const seen: Record<string, Set<string>> = { a: new Set(), b: new Set(), d: new Set(), e: new Set() }
  let over = false
  const asking = Object.entries(apps).map(async ([name, { domain }]) => {
    for (; !over; await pause(5)) {
      const { status, body } = await platform.page(domain).catch(error => ({ status: 0, body: String(error) }))
      seen[name]!.add(status === 200 ? body : String(status))
    }
  })
  const statuses = () => Promise.all(Object.values(apps).map(async app => (await platform.page(app.domain)).status))

  // Containers are started by hand, and the worker starts before the host: the rows are out of date.
  await Promise.all([a, b, d].map(app => containerOf(app).start()))
  platform.machine.bootId = 'another-boot'
  await platform.startWorker()
  t.like(await platform.ended(d.operationId), { state: 'success', code: null })
  t.deepEqual(await statuses(), [503, 503, 503, 503])

  await platform.startHost('a', {}, { bootId: 'another-boot' })
  for (const [name, app] of Object.entries(apps)) await platform.serves(app.domain, say(name), 60)
  over = true
  await Promise.all(asking)
  for (const name of Object.keys(apps))
    t.deepEqual(
      [...seen[name]!].filter(text => !/^\d+$/.test(text)),
      [say(name)],
      name,
    )
  t.not((await publishedAt(e)).HostPort, String(taken.port), 'the engine has chosen another one')
})
