import { execFile, spawn } from 'node:child_process'
import { readFile, readlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import test from 'ava'
import { bandwidthState, tokenBucket } from '../../../activities/bandwidth/port.ts'
import { openBandwidth, tcBandwidth } from '../../../activities/bandwidth/tc.ts'
import { bandwidthBurst, bandwidthMbit } from '../../../policy/apps/sizes.ts'
import { parseConfig } from '../../../policy/config.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

const { bandwidth, notice } = await openBandwidth(50)
const { host, spec, prepare, clean } = realDocker()
test.before(prepare)
test.after.always(() => clean())

test('an application has 50 Mbit/s each way for every 256 MB unless a setting says otherwise', t => {
  const { mbitPer256Mb } = parseConfig({}, '/').host
  t.deepEqual(
    [256, 512, 768, 32_768].map(memory => bandwidthMbit(memory, mbitPer256Mb)),
    [50, 100, 150, 6400],
  )
  t.is(parseConfig({ HOST_BANDWIDTH_MBIT: '10' }, '/').host.mbitPer256Mb, 10)
  t.is(tokenBucket('if7', 150).join(' '), 'qdisc replace dev if7 root tbf rate 150mbit burst 187500 latency 100ms')
  t.is(bandwidthBurst(50), 131_072, 'never less than a program hands over at once')
})

test('a limit that is off states why', async t => {
  t.is(bandwidthState(await openBandwidth(0)), 'off: the setting HOST_BANDWIDTH_MBIT is off')
})

const run = async (...[program, ...args]: [string, ...string[]]) => (await promisify(execFile)(program, args)).stdout

interface Qdisc {
  kind: string
  options: { rate?: number }
  bytes: number
  overlimits: number
}

/** Byte counts of both ends of a container's link, from the kernel. */
async function linkOf(pid: number) {
  const within = ['nsenter', `--net=/proc/${pid}/ns/net`] as const
  const [{ link_index: index }] = JSON.parse(await run(...within, 'ip', '-json', 'link', 'show', 'dev', 'eth0'))
  const one = async (...command: [string, ...string[]]): Promise<Qdisc> => JSON.parse(await run(...command))[0]
  return {
    receives: () => one('tc', '-s', '-j', 'qdisc', 'show', 'dev', `if${index}`),
    sends: () => one(...within, 'tc', '-s', '-j', 'qdisc', 'show', 'dev', 'eth0'),
  }
}

/** Receives bytes, and then sends as many. */
const echo = `
  require('node:net').createServer({ allowHalfOpen: true }, socket => {
    let bytes = 0;
    socket.on('data', chunk => (bytes += chunk.length)).on('end', () => socket.end(Buffer.alloc(bytes)))
  }).listen(7000, () => console.log('listening'))`

/** Sends this number of bytes and receives as many. */
function transfer(address: string, bytes: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let taken = 0
    const socket = connect({ host: address, port: 7000, allowHalfOpen: true }, () => socket.end(Buffer.alloc(bytes)))
    socket.on('data', chunk => {
      taken += chunk.length
    })
    socket.once('error', reject).once('end', () => resolve(taken))
  })
}

if (bandwidth)
  test.serial('a container sends and receives at its rate, after every start', async t => {
    t.timeout(120_000)
    const box = spec(`node -e "${echo.replaceAll('\n', ' ')}"`)
    await host.create(box)
    for (const [round, mbit] of [50, 100].entries()) {
      await host.start(box.name)
      const { id, process } = (await host.inspect(box.name))!
      t.is(process?.memoryMb, 128)
      const { pid } = process!
      const link = await linkOf(pid)
      t.not((await link.receives()).kind, 'tbf', 'the link of every start is a new one')
      await bandwidth.limit({ id, pid, mbit })
      await bandwidth.limit({ id, pid, mbit })
      const before = { receives: await link.receives(), sends: await link.sends() }
      const listens = async () => (await host.logs(box.name, 10_000))!.split('listening').length > round + 1
      await comesTrue(listens)
      const { NetworkSettings } = await engineFact(`/containers/${box.name}/json`)
      const [{ IPAddress }] = Object.values(NetworkSettings.Networks) as [{ IPAddress: string }]
      const bytes = 4_000_000
      t.is(await transfer(IPAddress, bytes), bytes)
      for (const way of ['receives', 'sends'] as const) {
        const after = await link[way]()
        t.is(after.kind, 'tbf', way)
        t.is(after.options.rate, (mbit * 1_000_000) / 8, way)
        t.true(after.bytes - before[way].bytes >= bytes, `${way}: ${after.bytes}`)
        t.true(after.overlimits > before[way].overlimits, `${way}: the bucket held it up`)
      }
      await host.stop(box.name, 1)
    }
  })
else test('a kernel without token buckets is reported', t => t.regex(notice ?? '', /tc does not work here|root/))

test.serial('a process of another container, and the network of the machine, stay untouched', async t => {
  demandRoot()
  const own = { id: 'f'.repeat(64), pid: process.pid, mbit: 1 }
  await t.throwsAsync(tcBandwidth().limit(own), { message: /not in container/ })
  const id = (await readFile('/proc/self/cgroup', 'utf8')).trim().slice(-1)
  await t.throwsAsync(tcBandwidth().limit({ ...own, id }), { message: /no network of its own/ })
})

test.serial('a link whose other end is elsewhere leaves the local device of that index untouched', async t => {
  demandRoot()
  // Two networks that are linked to each other, and a local device with the index of one of the ends.
  const inNetworkOfItsOwn = () => {
    const child = spawn('unshare', ['--net', 'sleep', '60'])
    t.teardown(() => child.kill('SIGKILL'))
    return child.pid!
  }
  const [one, other] = [inNetworkOfItsOwn(), inNetworkOfItsOwn()]
  const network = (pid: number | 'self') => readlink(`/proc/${pid}/ns/net`)
  await comesTrue(
    async () => (await network(one)) !== (await network('self')) && (await network(other)) !== (await network('self')),
  )
  const index = 900_000 + (process.pid % 90_000)
  const end = ['type', 'veth', 'peer', 'name', 'outer', 'index', String(index), 'netns', String(other)] as const
  await run('nsenter', `--net=/proc/${one}/ns/net`, 'ip', 'link', 'add', 'eth0', ...end)
  await run('ip', 'link', 'add', `bw${index}`, 'index', String(index), 'type', 'veth', 'peer', 'name', `bp${index}`)
  t.teardown(() => run('ip', 'link', 'del', `bw${index}`))
  const id = (await readFile(`/proc/${one}/cgroup`, 'utf8')).trim().slice(-1)
  await t.throwsAsync(tcBandwidth().limit({ id, pid: one, mbit: 1 }), { message: /not the other end/ })
  t.notRegex(await run('tc', 'qdisc', 'show', 'dev', `bw${index}`), /tbf/)
})
