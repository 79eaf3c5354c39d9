import { execFileSync } from 'node:child_process'
import test from 'ava'
import { limitNameServer } from '../../../activities/containers/name-server-limit.ts'
import { networkLimits } from '../../../policy/hosts/network-limits.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

const { host, spec, prepare, clean } = realDocker({ started: (_, network) => limitNameServer(network) })
test.before(prepare)
test.after.always(() => clean())

/** Asks the engine's name server until it is refused, and then for 3 s; prints how many packets left in these, and their seconds. */
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

/** Asks for its own name, which the engine knows, at a usual pace; prints how many answers did not come. */
const usual = `
import socket, time
missing = 0
for _ in range(60):
  try: socket.getaddrinfo(socket.gethostname() + '.', 80)
  except OSError: missing += 1
  time.sleep(0.05)
print(missing)`

async function run(program: string): Promise<string> {
  let output = ''
  const change = { image: 'berth/python:3.11', env: { PROGRAM: program }, cpus: 0.5 }
  const container = spec('exec python3 -c "$PROGRAM"', change)
  const add = (text: string) => {
    output += text
  }
  await host.runToEnd(container, add, AbortSignal.timeout(60_000))
  return output.trim()
}

test('a program that floods the name server of the engine is refused past its limit, and a neighbour gets its answers', async t => {
  demandRoot()
  await host.ensureImage('berth/python:3.11')
  const { namePacketsPerSecond, namePacketsAtOnce } = networkLimits
  t.deepEqual([namePacketsPerSecond, namePacketsAtOnce], [400, 2000])
  const [flooded, missing] = await Promise.all([run(flood), run(usual)])
  const [sent, seconds] = flooded.split(' ').map(Number) as [number, number]
  t.true(sent > namePacketsPerSecond, flooded)
  // What the burst lets through is gone by then.
  t.true(sent <= namePacketsPerSecond * (seconds + 1), flooded)
  t.is(missing, '0')
})

test('a container that is started, and started again after a lost answer, has the rule once', async t => {
  demandRoot()
  const container = spec('sleep 60')
  await host.create(container)
  await host.start(container.name)
  await host.start(container.name)
  const { NetworkSettings } = await engineFact(`/containers/${container.name}/json`)
  const rules = execFileSync('nsenter', [`--net=${NetworkSettings.SandboxKey}`, 'iptables', '-w', '-S']).toString()
  t.is(rules.split('\n').filter(rule => rule.startsWith('-A OUTPUT -d 127.0.0.11/32 -m hashlimit')).length, 1, rules)
})

test('a container that has ended has no network to limit any more', async t => {
  await t.throwsAsync(limitNameServer('/var/run/docker/netns/nobody'))
})
