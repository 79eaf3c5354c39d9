import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext, SerialFn } from 'ava'
import { bridgeName } from '../../activities/containers/network-names.ts'
import {
  type ContainerEvent,
  type ContainerHost,
  type ContainerSpec,
  type FollowOptions,
  HostUnreachable,
  ImageUnavailable,
  labels,
  PortTaken,
  type PresentNetwork,
} from '../../activities/containers/port.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { ownFolder } from '../kit/folders.ts'

/** Programs of the contract. A fake recognises them by their text. */
export const programs = {
  waits: 'exec sleep 600',
  answers: "exec node -e \"require('http').createServer((q,s)=>s.end('ok')).listen(process.env.PORT)\"",
  speaks: 'echo out; echo err >&2; echo última; exec sleep 600',
  talks: "seq -f 'line %g' 1000 8999; exec sleep 600",
  fails: 'echo no >&2; exit 3',
  rambles: "exec node -e \"console.log('\\u00e9'.repeat(100000) + '\\nend'); setInterval(() => {}, 1e6)\"",
  floods: 'exec yes',
  installs: 'echo one; sleep 0.2; echo two',
  stubborn: "trap '' TERM; while :; do sleep 0.1; done",
  swallows: 'exec node -e "const a=[];for(;;)a.push(Buffer.alloc(1e7,1))"',
  looksAround: `printf '%s\\n' "$WORD"; echo "$(id -u):$(id -g) in $(pwd)"; cat kept/told; echo new >> mine/told && cat mine/told; (echo new >> kept/told) 2>/dev/null || echo refused`,
} as const

export const missingImage = 'berth-nowhere/nothing:1'

export interface HostUnderTest {
  host: ContainerHost
  /** A small container of this program in a network that exists, with labels of this run. */
  spec(program: keyof typeof programs, change?: Partial<ContainerSpec>): ContainerSpec
  /** The same kind of host, whose engine can become unreachable and come back. */
  fragile(t: ExecutionContext): Promise<{ host: ContainerHost; fall(): Promise<void>; rise(): Promise<void> }>
  /** A container for which there is no space left when it is started. */
  crowded(t: ExecutionContext): ContainerSpec
}

/** The contract of every container host. */
export function containerHostContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  const running = async (host: ContainerHost, spec: ContainerSpec) => {
    await host.create(spec)
    await host.start(spec.name)
    return host.inspect(spec.name)
  }

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

  test(`${name}: logs join both outputs and return the newest part`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks')
    await running(host, wanted)
    await until(async () => (await host.logs(wanted.name, 1000))?.includes('última'))
    const lines = (await host.logs(wanted.name, 1000))?.trim().split('\n').sort()
    t.deepEqual(lines, ['err', 'out', 'última'])
    const cut = (await host.logs(wanted.name, 9)) ?? ''
    t.true(Buffer.byteLength(cut) <= 9 && cut.length > 0, cut)
    await host.remove(wanted.name)
  })

  test(`${name}: of a container without a log nothing is retained, but a run to the end passes on its output`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks', { log: 'none' })
    await running(host, wanted)
    t.is(await host.logs(wanted.name, 1000), '')
    await host.followLogs(wanted.name, { tail: 10 }, () => t.fail(), new AbortController().signal)
    await host.stop(wanted.name, 5)
    t.is(await host.logs(wanted.name, 1000), '')
    await host.remove(wanted.name)
    let output = ''
    const take = (text: string) => {
      output += text
    }
    await host.runToEnd(spec('installs', { log: 'none' }), take, new AbortController().signal)
    t.is(output, 'one\ntwo\n')
  })

  test(`${name}: logs return as many short lines as fit`, async t => {
    const { host, spec } = subject()
    const wanted = spec('talks')
    await running(host, wanted)
    const room = 4000 * 'line 1000\n'.length + 5
    await until(async () => (await host.logs(wanted.name, 1000))?.endsWith('line 8999\n'))
    const lines = (await host.logs(wanted.name, room))!.trim().split('\n')
    t.is(lines[0], 'line 5000')
    t.is(lines.length, 4000)
    await host.remove(wanted.name)
  })

  test(`${name}: output is followed line by line, with its stream, until the run ends`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks')
    await running(host, wanted)
    await until(async () => (await host.logs(wanted.name, 1000))?.includes('última'))
    const all: string[] = []
    const [late, none]: [string[], string[]] = [[], []]
    let newest = 0n
    const follow = (options: FollowOptions, into: string[]) => {
      const take = (stream: string, text: string, at: bigint) => {
        into.push(`${stream} ${text}`)
        if (at > newest) newest = at
      }
      return host.followLogs(wanted.name, options, take, signal)
    }
    const later = BigInt(Date.now() + 5000) * 1_000_000n
    const { signal } = new AbortController()
    const ends = [follow({ tail: 10 }, all), follow({}, none), follow({ after: later }, none)]
    await until(async () => all.length === 3)
    t.deepEqual([...all].sort(), ['stderr err', 'stdout out', 'stdout última'])
    await host.stop(wanted.name, 5)
    await Promise.all(ends)
    t.deepEqual(none, [])

    await host.start(wanted.name)
    const again = follow({ after: newest }, late)
    await until(async () => late.length === 3)
    t.deepEqual(late.sort(), ['stderr err', 'stdout out', 'stdout última'], 'all of this run, and nothing else')
    const whole: string[] = []
    const both = follow({ after: 0n }, whole)
    await until(async () => whole.length === 6)
    await host.remove(wanted.name)
    await Promise.all([again, both])
    await t.notThrowsAsync(follow({ tail: 10 }, none), 'there is no such container')
  })

  test(`${name}: a slow listener slows the output, long lines come in pieces, and the signal ends it`, async t => {
    const { host, spec } = subject()
    const wanted = spec('rambles')
    await running(host, wanted)
    const end = new AbortController()
    const pieces: string[] = []
    let busy = 0
    const listen = async (_: string, text: string) => {
      t.is(busy++, 0, 'one at a time')
      await sleep(50)
      busy--
      pieces.push(text)
    }
    const following = host.followLogs(wanted.name, { tail: 10 }, listen, end.signal)
    await until(async () => pieces.at(-1) === 'end')
    t.true(pieces.every(piece => Buffer.byteLength(piece) <= 65_536))
    t.is(pieces.slice(0, -1).join(''), 'é'.repeat(100_000))
    end.abort()
    await following
    await t.notThrowsAsync(host.followLogs(wanted.name, { tail: 10 }, listen, end.signal))
    await host.remove(wanted.name)
  })

  test(`${name}: output is read until the run or the signal ends it, and a missing container has none`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks')
    const end = new AbortController()
    const read = (signal: AbortSignal) => host.readOutput(wanted.name, async () => {}, signal)
    await t.notThrowsAsync(read(end.signal), 'there is no such container')
    await running(host, wanted)
    const ended = read(end.signal)
    end.abort()
    await ended
    const reading = read(new AbortController().signal)
    await host.stop(wanted.name, 5)
    await reading
    await t.notThrowsAsync(read(end.signal), 'aborted before it began')
    await read(new AbortController().signal) // for a container that has ended it resolves, without waiting for its next start
    await host.remove(wanted.name)
  })

  test(`${name}: the exit of a program is reported`, async t => {
    const { host, spec } = subject()
    const wanted = spec('fails')
    await running(host, wanted)
    await until(async () => (await host.inspect(wanted.name))?.running === false)
    const state = await host.inspect(wanted.name)
    t.like(state, { status: 'exited', exitCode: 3, oom: false })
    t.true((state?.finishedAt?.getTime() ?? 0) >= (state?.startedAt?.getTime() ?? Number.POSITIVE_INFINITY))
    await host.remove(wanted.name)
  })

  test(`${name}: a program that ran out of memory is reported as such`, async t => {
    const { host, spec } = subject()
    const wanted = spec('swallows', { memoryMb: 64 })
    await running(host, wanted)
    await until(async () => (await host.inspect(wanted.name))?.running === false)
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
    await until(async () => (await host.inspect(wanted.name))?.running)
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
    one.labels = { ...one.labels, [labels.app]: 'one' }
    two.labels = { ...two.labels, [labels.app]: 'two' }
    await host.create(one)
    await running(host, two)
    const hostLabel = { [labels.host]: one.labels[labels.host]! }
    const names = (states: { name: string }[]) => states.map(state => state.name).sort()
    t.deepEqual(names(await host.list(hostLabel)), [one.name, two.name].sort())
    t.deepEqual(names(await host.list({ ...hostLabel, [labels.app]: 'two' })), [two.name])
    t.deepEqual(await host.list({ ...hostLabel, [labels.app]: 'three' }), [])
    await host.pause(two.name)
    for (const of of [one, two]) {
      const [listed] = await host.list({ ...hostLabel, [labels.app]: of.labels[labels.app]! })
      t.like(await host.inspect(of.name), { ...listed! }, 'a list tells what a look would')
    }
    await host.unpause(two.name)
    const [listed] = await host.list({ ...hostLabel, [labels.app]: 'two' })
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
    await until(async () => {
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
    await until(async () => events.some(event => event.action === 'die'))
    await host.remove(wanted.name)
    await until(async () => events.some(event => event.action === 'destroy'))
    t.deepEqual(
      events.map(event => event.action),
      ['start', 'die', 'destroy'],
    )
    t.true(events.every(event => event.name === wanted.name && event.labels[labels.app] === 'watched'))
    end.abort()
    await t.notThrowsAsync(watching)
  })

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
    await until(async () => {
      if (events.length > 0) return true
      await host.stop(wanted.name, 5)
      await host.start(wanted.name)
      return false
    })
    const take = (_: string, text: string) => void lines.push(text)
    const followed = t.throwsAsync(host.followLogs(wanted.name, { tail: 10 }, take, signal), {
      instanceOf: HostUnreachable,
    })
    await until(async () => lines.includes('última'))
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

const loopback = '127.0.39.18'

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

/** Waits until `condition` holds, at most a minute. */
export async function until(condition: () => Promise<unknown>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await condition()); await sleep(50)) {
    if (Date.now() > end) throw new Error('It did not come true within a minute.')
  }
}
