import { execFileSync } from 'node:child_process'
import test from 'ava'
import {
  limitConnections,
  limitNameServer,
  networkRules,
  WaitingRules,
} from '../../../activities/containers/network-rules.ts'
import { labels } from '../../../activities/containers/port.ts'
import { namePacketsFor, networkLimits } from '../../../policy/hosts/network-limits.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

const { host, run, spec, prepare, clean } = realDocker({
  async started(container) {
    await limitNameServer(container)
    await limitConnections(container)
  },
})
test.before(prepare)
test.after.always(() => clean())

/** Queries the engine's name server until it is refused, and then for 3 s; prints the packets sent in that time, and the seconds. */
const flood = `
import random, socket, struct, time
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.setblocking(False)
def leaves():
  name = b'%07x' % random.getrandbits(28)
  question = struct.pack('>HHHHHH', 1, 256, 1, 0, 0, 0) + bytes([7]) + name + bytes([4]) + b'test' + bytes([0, 0, 1, 0, 1])
  try:
    asking.sendto(question, ('127.0.0.11', 53))
    return True
  except PermissionError: return False
  except OSError: return True
limit = time.monotonic() + 20
while leaves() and time.monotonic() < limit: pass
begun, sent = time.monotonic(), 0
while time.monotonic() - begun < 3: sent += leaves()
print(sent, time.monotonic() - begun)`

/** Queries its own name, which the engine knows, at a normal rate; prints the number of missing answers. */
const usual = `
import socket, time
missing = 0
for _ in range(60):
  try: socket.getaddrinfo(socket.gethostname() + '.', 80)
  except OSError: missing += 1
  time.sleep(0.05)
print(missing)`

async function outputOf(program: string): Promise<string> {
  let output = ''
  const change = { image: 'berth/python:3.11', env: { PROGRAM: program }, cpus: 0.5, memoryMb: 1024 }
  const container = spec('exec python3 -c "$PROGRAM"', change)
  const add = (text: string) => {
    output += text
  }
  await host.runToEnd(container, add, AbortSignal.timeout(60_000))
  return output.trim()
}

test('a program that floods the engine’s name server is refused above its limit, and a neighbour gets its answers', async t => {
  demandRoot()
  await host.ensureImage('berth/python:3.11')
  const { namePacketsPerSecond, namePacketsAtOnce } = networkLimits
  t.deepEqual([namePacketsPerSecond, namePacketsAtOnce], [400, 2000])
  const [flooded, missing] = await Promise.all([outputOf(flood), outputOf(usual)])
  const [sent, seconds] = flooded.split(' ').map(Number) as [number, number]
  t.true(sent > namePacketsPerSecond, flooded)
  // The burst is used up by then.
  t.true(sent <= namePacketsPerSecond * (seconds + 1), flooded)
  t.is(missing, '0')
})

/** Queries its own name over TCP for 5 s, in full packets; prints the number of answers. */
const streams = `
import select, socket, struct, time
name = socket.gethostname().encode()
question = struct.pack('>HHHHHHB', 1, 256, 1, 0, 0, 0, len(name)) + name + struct.pack('>BHH', 0, 1, 1)
many = (struct.pack('>H', len(question)) + question) * 2000
answers, limit = 0, time.monotonic() + 5
while time.monotonic() < limit:
  one, heard, left = socket.socket(), b'', b''
  try:
    one.settimeout(1)
    one.connect(('127.0.0.11', 53))
    one.setblocking(False)
    while time.monotonic() < limit:
      reads, writes, _ = select.select([one], [one], [], 0.05)
      if writes:
        left = left or many
        left = left[one.send(left):]
      if reads:
        piece = one.recv(1 << 20)
        if not piece: break
        heard += piece
      while len(heard) >= 2 and len(heard) >= 2 + struct.unpack('>H', heard[:2])[0]:
        heard = heard[2 + struct.unpack('>H', heard[:2])[0]:]
        answers += 1
  except OSError: pass
  one.close()
print(answers)`

test('bytes are counted over TCP, where a packet contains thousands of queries', async t => {
  demandRoot()
  await host.ensureImage('berth/python:3.11')
  const { nameStreamBytesPerSecond, nameStreamBytesAtOnce } = networkLimits
  const questionBytes = 32
  const answers = await outputOf(streams)
  t.true(Number(answers) <= (5 * nameStreamBytesPerSecond + nameStreamBytesAtOnce) / questionBytes, `got ${answers}`)
})

test('any number of small applications share the limit of a large one', t => {
  t.deepEqual(namePacketsFor(256), { perSecond: 100, atOnce: 500 })
  t.deepEqual(namePacketsFor(1024), { perSecond: 400, atOnce: 2000 })
  t.deepEqual(namePacketsFor(32_768), { perSecond: 400, atOnce: 2000 })
})

test('a container that is started, and started again after a lost answer, has each rule once', async t => {
  demandRoot()
  const bounded = { [labels.host]: run, [labels.port]: '20000', [labels.ownerConnections]: '50' }
  const container = spec('sleep 60', { labels: bounded })
  await host.create(container)
  await host.start(container.name)
  await host.start(container.name)
  const rulesNow = async () => {
    const { NetworkSettings } = await engineFact(`/containers/${container.name}/json`)
    const rules = execFileSync('nsenter', [`--net=${NetworkSettings.SandboxKey}`, 'iptables', '-w', '-S'])
    return rules.toString().split('\n')
  }
  const limitsIn = (rules: string[]) => [
    rules.filter(rule => rule.includes(' --dport 20000 ')).length,
    rules.filter(rule => /^-A (clients|outside) /.test(rule)).length,
  ]
  const rules = await rulesNow()
  t.is(rules.filter(rule => rule.startsWith('-A OUTPUT -d 127.0.0.11/32')).length, 2, rules.join('\n'))
  t.deepEqual(limitsIn(rules), [1, 7], rules.join('\n'))
  // Somebody else starts it again, in a network without rules, and two notice at the same time.
  await bareDocker.getContainer(container.name).restart({ t: 0 })
  t.deepEqual(limitsIn(await rulesNow()), [0, 0])
  const { connection } = (await host.inspect(container.name))!
  await Promise.all([1, 2, 3].map(() => limitConnections({ labels: bounded, ...connection! })))
  t.deepEqual(limitsIn(await rulesNow()), [1, 7])
})

test('a process that waits sets the rules of a container, one that was stopped is ended, and another one sets them then', async t => {
  demandRoot()
  const container = spec('sleep 60')
  await host.create(container)
  await host.start(container.name)
  const { network } = (await host.inspect(container.name))!.connection!
  const inside = (...args: string[]) =>
    execFileSync('nsenter', [`--net=${network}`, 'iptables', '-w', ...args]).toString()
  const count = () => inside('-S', 'OUTPUT').match(/-d 127\.0\.0\.11/g)?.length ?? 0
  inside('-F', 'OUTPUT')
  const waiting = new WaitingRules()
  await limitNameServer({ network, memoryMb: 256 }, waiting)
  t.is(count(), 2)
  t.false(waiting.isAlive)
  const stopped = new WaitingRules()
  process.kill(stopped.pid!, 'SIGSTOP')
  await t.throwsAsync(limitNameServer({ network, memoryMb: 256 }, stopped))
  t.false(stopped.isAlive)
})

test('a container that has ended has no network to limit', async t => {
  await t.throwsAsync(limitNameServer({ network: '/var/run/docker/netns/nobody', memoryMb: 256 }))
})

test('rules that cannot be set are reported once of each kind, and not for a container that has ended', async t => {
  const reported: string[] = []
  let runs: () => Promise<boolean> = async () => false
  const { limit, close } = networkRules({ runs: () => runs(), report: (_failure, words) => void reported.push(words) })
  t.teardown(close)
  const place = { network: '/nowhere', range: '10.192.0.2/24', gateway: '10.192.0.1' }
  const of = { [labels.port]: '20000', [labels.ownerConnections]: '50' }
  const start = () => limit({ name: 'one', labels: of, memoryMb: 128, ...place })
  await start()
  runs = () => Promise.reject(new Error('The engine does not answer.'))
  await start()
  t.deepEqual(reported, [])
  runs = async () => true
  await start()
  await start()
  t.deepEqual(
    reported.map(words => words.split(':')[0]),
    ['connections to databases are not limited', 'queries of containers to the name server are not limited'],
  )
})
