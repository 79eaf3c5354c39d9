import { setTimeout as sleep } from 'node:timers/promises'
import type { SerialFn } from 'ava'
import { type ContainerEvent, labels } from '../../../activities/containers/port.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type HostUnderTest, running } from './host-under-test.ts'

/** What an engine tells of its containers, and runs to their end. */
export function reportsContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  test(`${name}: the exit of a program is reported`, async t => {
    const { host, spec } = subject()
    const wanted = spec('fails')
    await running(host, wanted)
    await comesTrue(async () => (await host.inspect(wanted.name))?.running === false)
    const state = await host.inspect(wanted.name)
    t.like(state, { status: 'exited', exitCode: 3, oom: false })
    t.true((state?.finishedAt?.getTime() ?? 0) >= (state?.startedAt?.getTime() ?? Number.POSITIVE_INFINITY))
    await host.remove(wanted.name)
  })

  test(`${name}: a program that ran out of memory is reported as such`, async t => {
    const { host, spec } = subject()
    const wanted = spec('swallows', { memoryMb: 64 })
    await running(host, wanted)
    await comesTrue(async () => (await host.inspect(wanted.name))?.running === false)
    t.like(await host.inspect(wanted.name), { exitCode: 137, oom: true })
    await host.remove(wanted.name)
  })

  test(`${name}: readings exist while a container runs`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    await running(host, wanted)
    const stats = await host.stats(wanted.name)
    t.true(stats !== null && stats.cpuPercent >= 0 && stats.memoryBytes > 0)
    t.true(stats!.residentBytes > 0 && stats!.residentBytes <= stats!.memoryLimitBytes)
    t.is(stats?.memoryLimitBytes, wanted.memoryMb * 1024 * 1024)
    t.deepEqual(stats?.startedAt, (await host.inspect(wanted.name))?.startedAt)
    await host.stop(wanted.name, 5)
    t.is(await host.stats(wanted.name), null)
    await host.start(wanted.name)
    const again = await host.stats(wanted.name)
    t.deepEqual(again?.startedAt, (await host.inspect(wanted.name))?.startedAt, 'of the new run')
    await host.remove(wanted.name)
  })

  test(`${name}: a run to the end returns its output and exit code, and leaves nothing`, async t => {
    const { host, spec } = subject()
    const wanted = spec('installs')
    await host.create(wanted) // what a killed attempt left
    let output = ''
    const result = await host.runToEnd(
      wanted,
      text => {
        output += text
      },
      new AbortController().signal,
    )
    t.deepEqual(result, { exitCode: 0, oom: false })
    t.is(output, 'one\ntwo\n')
    t.is(await host.inspect(wanted.name), null)
    t.deepEqual(await host.runToEnd(spec('fails'), () => {}, new AbortController().signal), { exitCode: 3, oom: false })
    const swallowed = await host.runToEnd(spec('swallows', { memoryMb: 64 }), () => {}, new AbortController().signal)
    t.deepEqual(swallowed, { exitCode: 137, oom: true })
  })

  test(`${name}: a slow listener receives no more output meanwhile`, async t => {
    const { host, spec } = subject()
    let inside = 0
    let most = 0
    let pieces = 0
    const enough = new AbortController()
    const take = async () => {
      most = Math.max(most, ++inside)
      await sleep(20)
      inside--
      if (++pieces === 10) enough.abort(new Error('seen enough'))
    }
    await t.throwsAsync(host.runToEnd(spec('floods'), take, enough.signal), { message: 'seen enough' })
    t.is(most, 1)
  })

  test(`${name}: a cancelled run is removed when the call returns`, async t => {
    const { host, spec } = subject()
    // Stopping it with TERM would take that long.
    const wanted = spec('stubborn', { stopTimeoutSeconds: 300 })
    const cancel = new AbortController()
    const run = host.runToEnd(wanted, () => {}, cancel.signal)
    await comesTrue(async () => (await host.inspect(wanted.name))?.running)
    const startTime = Date.now()
    cancel.abort(new Error('changed my mind'))
    await t.throwsAsync(run, { message: 'changed my mind' })
    t.is(await host.inspect(wanted.name), null)
    t.true(Date.now() - startTime < 100_000)
    await t.throwsAsync(
      host.runToEnd(wanted, () => {}, cancel.signal),
      { message: 'changed my mind' },
    )
  })

  test(`${name}: listing is by labels`, async t => {
    const { host, spec } = subject()
    const publish = { port: 3000, address: '127.0.0.2' }
    const [one, two] = [spec('waits', { publish }), spec('waits', { publish })]
    // An owner of their own: a test that failed may have left containers of this host.
    const owner = { [labels.owner]: one.name }
    one.labels = { ...one.labels, ...owner, [labels.app]: 'one' }
    two.labels = { ...two.labels, ...owner, [labels.app]: 'two' }
    await host.create(one)
    await running(host, two)
    const names = (states: { name: string }[]) => states.map(state => state.name).sort()
    t.deepEqual(names(await host.list(owner)), [one.name, two.name].sort())
    t.deepEqual(names(await host.list({ ...owner, [labels.app]: 'two' })), [two.name])
    t.deepEqual(await host.list({ ...owner, [labels.app]: 'three' }), [])
    await host.pause(two.name)
    for (const of of [one, two]) {
      const [listed] = await host.list({ ...owner, [labels.app]: of.labels[labels.app]! })
      t.like(await host.inspect(of.name), { ...listed! }, 'a list tells what a look would')
    }
    await host.unpause(two.name)
    const [listed] = await host.list({ ...owner, [labels.app]: 'two' })
    t.like(listed, { running: true, status: 'running' })
    t.like(await host.inspect(two.name), { ...listed! })
    await host.remove(one.name)
    await host.remove(two.name)
  })

  test(`${name}: a pause is reported`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    wanted.labels = { ...wanted.labels, [labels.app]: 'paused' }
    const events: ContainerEvent[] = []
    const end = new AbortController()
    const watching = host.watch({ [labels.app]: 'paused' }, event => events.push(event), end.signal)
    await running(host, wanted)
    await comesTrue(async () => {
      await host.pause(wanted.name)
      await host.unpause(wanted.name)
      return events.some(event => event.action === 'pause' && event.name === wanted.name)
    })
    end.abort()
    await watching
    await host.remove(wanted.name)
    t.pass()
  })

  test(`${name}: events with these labels are reported until the signal aborts`, async t => {
    const { host, spec } = subject()
    const wanted = spec('fails')
    wanted.labels = { ...wanted.labels, [labels.app]: 'watched' }
    const events: ContainerEvent[] = []
    const end = new AbortController()
    let opened = () => {}
    const isOpen = new Promise<void>(open => {
      opened = open
    })
    const watching = host.watch({ [labels.app]: 'watched' }, event => events.push(event), end.signal, opened)
    await isOpen
    await host.list({ [labels.app]: 'watched' })
    await running(host, wanted)
    await running(host, { ...spec('fails') })
    await comesTrue(async () => events.some(event => event.action === 'die'))
    await host.remove(wanted.name)
    await comesTrue(async () => events.some(event => event.action === 'destroy'))
    t.deepEqual(
      events.map(event => event.action),
      ['start', 'die', 'destroy'],
    )
    t.true(events.every(event => event.name === wanted.name && event.labels[labels.app] === 'watched'))
    end.abort()
    await t.notThrowsAsync(watching)
  })
}
