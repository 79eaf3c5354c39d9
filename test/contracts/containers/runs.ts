import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SerialFn } from 'ava'
import { PortTaken } from '../../../activities/containers/port.ts'
import { type HostUnderTest, running } from './host-under-test.ts'

const loopback = '127.0.39.18'

/** What a container is from its creation to its removal. */
export function runsContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  test(`${name}: creating and starting twice has the same effect as once`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    const id = await host.create(wanted)
    t.is(await host.create(wanted), id)
    t.like(await host.inspect(wanted.name), {
      id,
      name: wanted.name,
      status: 'created',
      running: false,
      exitCode: null,
      startedAt: null,
    })
    await host.start(wanted.name)
    await host.start(wanted.name)
    const state = await host.inspect(wanted.name)
    t.like(state, {
      id,
      status: 'running',
      running: true,
      exitCode: null,
      oom: false,
      hostPort: null,
      finishedAt: null,
    })
    t.true(Math.abs(Date.now() - (state?.startedAt?.getTime() ?? 0)) < 20_000)
    t.like(state?.labels, wanted.labels)
    await host.remove(wanted.name)
  })

  test(`${name}: a published port answers on the requested address while the container runs`, async t => {
    const { host, spec } = subject()
    const wanted = spec('answers', { publish: { port: 80, address: '127.0.39.17' }, env: { PORT: '80' } })
    const state = await running(host, wanted)
    t.true((state?.hostPort ?? 0) > 0)
    t.is(state?.hostAddress, '127.0.39.17')
    t.is(await statusOf(`http://127.0.39.17:${state?.hostPort}/`), 200)
    await host.stop(wanted.name, 5)
    t.like(await host.inspect(wanted.name), { hostPort: null, hostAddress: null })
    await host.remove(wanted.name)
  })

  test(`${name}: a fixed port is the published one at every start`, async t => {
    const { host, spec } = subject()
    const hostPort = await unusedPort()
    const publish = { port: 80, address: loopback, hostPort }
    const wanted = spec('answers', { publish, env: { PORT: '80' } })
    for (const time of ['first', 'second']) {
      t.like(await running(host, wanted), { hostPort, hostAddress: loopback }, time)
      t.is(await statusOf(`http://${loopback}:${hostPort}/`), 200, time)
      await host.stop(wanted.name, 5)
    }
    await host.remove(wanted.name)
  })

  test(`${name}: a start whose fixed port is in use is refused as such, and succeeds once the port is free`, async t => {
    const { host, spec } = subject()
    const hostPort = await unusedPort()
    const publish = { port: 80, address: loopback, hostPort }
    const [first, second] = [spec('answers', { publish }), spec('answers', { publish })]
    await running(host, first)
    await host.create(second)
    const refused = async (what: string) => {
      await t.throwsAsync(host.start(second.name), { instanceOf: PortTaken }, what)
      t.like(await host.inspect(second.name), { running: false, hostPort: null, address: null }, what)
    }
    await refused('by a container')
    await t.throwsAsync(
      host.runToEnd(spec('fails', { publish }), () => {}, new AbortController().signal),
      { instanceOf: PortTaken },
    )
    await host.remove(first.name)
    const program = createServer()
    await new Promise<void>(done => program.listen(hostPort, loopback, done))
    await refused('by another program')
    await new Promise(done => program.close(done))
    t.like(await running(host, second), { running: true, hostPort })
    await host.remove(second.name)
  })

  test(`${name}: a container has an address of its own in its network while it runs`, async t => {
    const { host, spec } = subject()
    const [one, two] = [spec('waits'), spec('waits')]
    await host.create(one)
    t.is((await host.inspect(one.name))?.address, null)
    const addresses = [(await running(host, one))?.address, (await running(host, two))?.address]
    for (const address of addresses) t.regex(String(address), /^\d+\.\d+\.\d+\.\d+$/)
    t.is(new Set(addresses).size, 2)
    const listed = await host.list(one.labels)
    t.is(listed.find(state => state.name === one.name)?.address, addresses[0])
    await host.stop(one.name, 5)
    t.is((await host.inspect(one.name))?.address, null)
    t.is((await host.list(one.labels)).find(state => state.name === one.name)?.address, null)
    for (const { name } of [one, two]) await host.remove(name)
  })

  test(`${name}: a container without a network runs, and has no address`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits', { network: 'none' })
    t.like(await running(host, wanted), { running: true, address: null, hostPort: null })
    await host.remove(wanted.name)
    t.deepEqual(await host.runToEnd(spec('fails', { network: 'none' }), () => {}, new AbortController().signal), {
      exitCode: 3,
      oom: false,
    })
  })

  test(`${name}: stopping sends the signal of the container`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits', { stopSignal: 'SIGINT' })
    await running(host, wanted)
    await host.stop(wanted.name, 20)
    t.like(await host.inspect(wanted.name), { status: 'exited', exitCode: 130 })
    await host.remove(wanted.name)
  })

  test(`${name}: stopping sends TERM first, and may be repeated`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    await running(host, wanted)
    await host.stop(wanted.name, 10)
    t.like(await host.inspect(wanted.name), { status: 'exited', running: false, exitCode: 143, oom: false })
    await host.stop(wanted.name, 10)
    await host.start(wanted.name)
    t.true((await host.inspect(wanted.name))?.running)
    await host.remove(wanted.name)
    await host.stop(wanted.name, 10)
  })

  test(`${name}: a paused container is started, stopped and removed like a running one`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    await running(host, wanted)
    await host.pause(wanted.name)
    await host.start(wanted.name)
    t.like(await host.inspect(wanted.name), { status: 'running', running: true })
    await host.pause(wanted.name)
    await host.stop(wanted.name, 1)
    t.like(await host.inspect(wanted.name), { status: 'exited', running: false })
    await host.start(wanted.name)
    await host.pause(wanted.name)
    await host.remove(wanted.name)
    t.is(await host.inspect(wanted.name), null)
  })

  test(`${name}: a paused container is frozen until it is unpaused, and both may be repeated`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    await host.pause(wanted.name)
    await host.unpause(wanted.name)
    await running(host, wanted)
    await host.unpause(wanted.name)
    await host.pause(wanted.name)
    await host.pause(wanted.name)
    t.like(await host.inspect(wanted.name), { status: 'paused', running: true, exitCode: null })
    t.deepEqual(
      (await host.list(wanted.labels)).filter(({ name }) => name === wanted.name).map(({ status }) => status),
      ['paused'],
    )
    await host.unpause(wanted.name)
    await host.unpause(wanted.name)
    t.like(await host.inspect(wanted.name), { status: 'running', running: true })
    await host.stop(wanted.name, 5)
    await host.pause(wanted.name)
    await host.unpause(wanted.name)
    t.like(await host.inspect(wanted.name), { status: 'exited', running: false })
    await running(host, wanted)
    await host.pause(wanted.name)
    await host.remove(wanted.name)
    t.is(await host.inspect(wanted.name), null)
  })

  test(`${name}: a program that ignores TERM is killed after the grace`, async t => {
    const { host, spec } = subject()
    const wanted = spec('stubborn')
    await running(host, wanted)
    const startTime = Date.now()
    await host.stop(wanted.name, 1)
    t.true(Date.now() - startTime >= 900)
    t.like(await host.inspect(wanted.name), { running: false, exitCode: 137, oom: false })
    await host.remove(wanted.name)
  })

  test(`${name}: a removed container is missing for every call, and removing it again is success`, async t => {
    const { host, spec } = subject()
    const wanted = spec('waits')
    await running(host, wanted)
    await host.remove(wanted.name)
    await host.remove(wanted.name)
    t.is(await host.inspect(wanted.name), null)
    t.is(await host.logs(wanted.name, 1000), null)
    t.is(await host.stats(wanted.name), null)
    await t.throwsAsync(host.start(wanted.name))
    const id = await host.create(wanted)
    await host.start(wanted.name)
    await host.stop(id, 0)
    t.false((await host.inspect(wanted.name))?.running, 'by its id too')
    await host.remove(id)
    t.is(await host.inspect(wanted.name), null, 'by its id too')
    await host.stop(id, 0)
    await host.remove(id)
  })
}

/** A port of `loopback` that nothing uses now. */
async function unusedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(done => server.listen(0, loopback, done))
  const { port } = server.address() as { port: number }
  await new Promise(done => server.close(done))
  return port
}

async function statusOf(url: string): Promise<number> {
  for (let tries = 0; ; tries++) {
    try {
      return (await fetch(url)).status
    } catch (error) {
      if (tries > 1000) throw error
      await sleep(50)
    }
  }
}
