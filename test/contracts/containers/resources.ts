import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SerialFn } from 'ava'
import { bridgeName } from '../../../activities/containers/network-names.ts'
import {
  type ContainerEvent,
  type ContainerHost,
  HostUnreachable,
  ImageUnavailable,
  type PresentNetwork,
} from '../../../activities/containers/port.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { type HostUnderTest, missingImage, running } from './host-under-test.ts'

/** What containers need: networks, images, mounts and space, and an engine that answers. */
export function resourcesContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  test(`${name}: networks are created and removed once, however often it is requested`, async t => {
    const { host, spec } = subject()
    const network = { name: `${spec('waits').network}-more`, labels: spec('waits').labels }
    await Promise.all([host.ensureNetwork(network), host.ensureNetwork(network), host.ensureNetwork(network)])
    await host.ensureNetwork(network)
    const listed = (await host.listNetworks(network.labels)).filter(({ name }) => name === network.name)
    const [{ subnet }] = listed as [PresentNetwork]
    t.deepEqual(listed, [{ name: network.name, bridge: bridgeName(network), subnet }])
    t.regex(subnet ?? '', /^10(\.\d+){2}\.0\/24$/)
    const inside = spec('waits', { network: network.name })
    await running(host, inside)
    await t.throwsAsync(host.removeNetwork(network.name))
    await host.remove(inside.name)
    await host.removeNetwork(network.name)
    await host.removeNetwork(network.name)
    t.false((await host.listNetworks(network.labels)).some(({ name }) => name === network.name))
  })

  test(`${name}: an unavailable image is reported as such`, async t => {
    const { host } = subject()
    await t.throwsAsync(host.ensureImage(missingImage), { instanceOf: ImageUnavailable })
    await t.throwsAsync(host.prepareImage(missingImage), { instanceOf: ImageUnavailable })
    t.is(await host.imageId(missingImage), null)
  })

  test(`${name}: a present image may be requested repeatedly; without its image no container is created`, async t => {
    const { host, spec } = subject()
    const [wanted, nothing] = [spec('fails'), spec('fails', { image: missingImage })]
    const progress: string[] = []
    const ensure = () => host.ensureImage(wanted.image, line => progress.push(line))
    await Promise.all([ensure(), ensure()])
    await ensure()
    t.deepEqual(progress, [])
    t.true(await host.prepareImage(wanted.image))
    t.true(await host.prepareImage(wanted.image, new AbortController().signal))
    await t.throwsAsync(host.prepareImage(missingImage, AbortSignal.abort(new Error('ends'))), { message: 'ends' })
    t.regex((await host.imageId(wanted.image)) ?? '', /^sha256:[0-9a-f]{64}$/)
    t.is(await host.imageId(wanted.image), await host.imageId(wanted.image))
    t.deepEqual(await host.runToEnd(wanted, () => {}, new AbortController().signal), { exitCode: 3, oom: false })
    await t.throwsAsync(host.create(nothing))
    t.is(await host.inspect(nothing.name), null)
  })

  test(`${name}: a program has the requested variables, user, working folder and mounts`, async t => {
    const { host, spec } = subject()
    const folder = ownFolder(t)
    chmodSync(folder, 0o755)
    for (const name of ['kept', 'mine']) {
      mkdirSync(join(folder, name))
      chmodSync(join(folder, name), 0o777)
      writeFileSync(join(folder, name, 'told'), `${name}\n`)
      chmodSync(join(folder, name, 'told'), 0o666)
    }
    const bind = (name: string) => ({ source: join(folder, name), target: `/app/${name}`, readOnly: name === 'kept' })
    const wanted = spec('looksAround', {
      env: { WORD: `it's "quoted", $HOME and\nlíne two=2` },
      user: '10007:10008',
      workingDir: '/app',
      binds: [bind('kept'), bind('mine')],
    })
    let output = ''
    const take = (text: string) => {
      output += text
    }
    const { exitCode } = await host.runToEnd(wanted, take, new AbortController().signal)
    t.is(output, `it's "quoted", $HOME and\nlíne two=2\n10007:10008 in /app\nkept\nmine\nnew\nrefused\n`)
    t.is(exitCode, 0)
    t.is(readFileSync(join(folder, 'mine', 'told'), 'utf8'), 'mine\nnew\n')
    t.is(readFileSync(join(folder, 'kept', 'told'), 'utf8'), 'kept\n')
  })

  test(`${name}: a start without disk space is reported as such, and leaves nothing running`, async t => {
    const { host, crowded } = subject()
    const wanted = crowded(t)
    await host.create(wanted)
    await t.throwsAsync(host.start(wanted.name), { instanceOf: NoSpaceLeft })
    t.like(await host.inspect(wanted.name), { running: false, hostPort: null })
    t.is(await host.stats(wanted.name), null)
    await host.remove(wanted.name)
    t.is(await host.inspect(wanted.name), null)
    await t.throwsAsync(
      host.runToEnd(wanted, () => {}, new AbortController().signal),
      { instanceOf: NoSpaceLeft },
    )
    t.is(await host.inspect(wanted.name), null)
  })

  test(`${name}: an engine that becomes unreachable ends open streams, fails every call, and may come back`, async t => {
    const { fragile, spec } = subject()
    const { host, fall, rise } = await fragile(t)
    const wanted = spec('speaks')
    const { signal } = new AbortController()
    const lines: string[] = []
    const events: ContainerEvent[] = []
    const watched = t.throwsAsync(
      host.watch(wanted.labels, event => events.push(event), signal),
      { instanceOf: HostUnreachable },
    )
    await host.create(wanted)
    // The engine decides from when on it sends events.
    await comesTrue(async () => {
      if (events.length > 0) return true
      await host.stop(wanted.name, 5)
      await host.start(wanted.name)
      return false
    })
    const take = (_: string, text: string) => void lines.push(text)
    const followed = t.throwsAsync(host.followLogs(wanted.name, { tail: 10 }, take, signal), {
      instanceOf: HostUnreachable,
    })
    await comesTrue(async () => lines.includes('última'))
    await fall()
    await Promise.all([watched, followed])
    const asked: { [Verb in Exclude<keyof ContainerHost, 'removeShare'>]: () => Promise<unknown> } = {
      ping: () => host.ping(),
      standing: () => host.standing(),
      ensureNetwork: () => host.ensureNetwork({ name: wanted.network, labels: wanted.labels }),
      removeNetwork: () => host.removeNetwork(wanted.network),
      listNetworks: () => host.listNetworks(wanted.labels),
      ensureImage: () => host.ensureImage(wanted.image),
      prepareImage: () => host.prepareImage(wanted.image),
      imageId: () => host.imageId(wanted.image),
      removeReplacedImages: () => host.removeReplacedImages(async () => []),
      dataFolder: () => host.dataFolder(),
      create: () => host.create(wanted),
      start: () => host.start(wanted.name),
      stop: () => host.stop(wanted.name, 1),
      pause: () => host.pause(wanted.name),
      unpause: () => host.unpause(wanted.name),
      remove: () => host.remove(wanted.name),
      inspect: () => host.inspect(wanted.name),
      list: () => host.list(wanted.labels),
      logs: () => host.logs(wanted.name, 1000),
      followLogs: () => host.followLogs(wanted.name, {}, () => {}, signal),
      readOutput: () => host.readOutput(wanted.name, async () => {}, signal),
      stats: () => host.stats(wanted.name),
      runToEnd: () => host.runToEnd(wanted, () => {}, signal),
      watch: () => host.watch(wanted.labels, () => {}, signal),
    }
    const others: string[] = []
    for (const [verb, ask] of Object.entries(asked)) {
      const answer = await ask().catch(error => error)
      if (!(answer instanceof HostUnreachable)) others.push(`${verb}: ${answer}`)
    }
    t.deepEqual(others, [])
    await t.notThrowsAsync(host.removeShare('nobody'), 'the kernel is asked, and not the engine')
    await rise()
    await t.notThrowsAsync(host.ping())
    t.true((await host.inspect(wanted.name))?.running, 'its containers know nothing of it')
    await host.remove(wanted.name)
  })

  test(`${name}: the engine reports its own state`, async t => {
    const { host } = subject()
    await t.notThrowsAsync(host.ping())
    t.regex((await host.dataFolder()) ?? '', /^\//)
    const standing = await host.standing()
    t.is(typeof standing.liveRestore, 'boolean')
    t.truthy(standing.began)
    t.deepEqual(await host.standing(), standing, 'as long as it goes on')
  })
}
