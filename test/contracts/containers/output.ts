import { setTimeout as sleep } from 'node:timers/promises'
import type { SerialFn } from 'ava'
import type { FollowOptions } from '../../../activities/containers/port.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type HostUnderTest, running } from './host-under-test.ts'

/** What a container prints, and who reads it. */
export function outputContract(test: SerialFn, name: string, subject: () => HostUnderTest): void {
  test(`${name}: logs join both outputs and return the newest part`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks')
    await running(host, wanted)
    await comesTrue(async () => (await host.logs(wanted.name, 1000))?.includes('última'))
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
    await comesTrue(async () => (await host.logs(wanted.name, 1000))?.endsWith('line 8999\n'))
    const lines = (await host.logs(wanted.name, room))!.trim().split('\n')
    t.is(lines[0], 'line 5000')
    t.is(lines.length, 4000)
    await host.remove(wanted.name)
  })

  test(`${name}: output is followed line by line, with its stream, until the run ends`, async t => {
    const { host, spec } = subject()
    const wanted = spec('speaks')
    await running(host, wanted)
    await comesTrue(async () => (await host.logs(wanted.name, 1000))?.includes('última'))
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
    await comesTrue(async () => all.length === 3)
    t.deepEqual([...all].sort(), ['stderr err', 'stdout out', 'stdout última'])
    await host.stop(wanted.name, 5)
    await Promise.all(ends)
    t.deepEqual(none, [])

    await host.start(wanted.name)
    const again = follow({ after: newest }, late)
    await comesTrue(async () => late.length === 3)
    t.deepEqual(late.sort(), ['stderr err', 'stdout out', 'stdout última'], 'all of this run, and nothing else')
    const whole: string[] = []
    const both = follow({ after: 0n }, whole)
    await comesTrue(async () => whole.length === 6)
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
    const following = host.followLogs(wanted.name, { tail: 100 }, listen, end.signal)
    await comesTrue(async () => pieces.at(-1) === 'end')
    t.true(pieces.every(piece => Buffer.byteLength(piece) <= 65_536))
    t.is(pieces.slice(0, -1).join(''), 'é'.repeat(100_000))
    end.abort()
    await following
    await t.notThrowsAsync(host.followLogs(wanted.name, { tail: 100 }, listen, end.signal))
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
}
