import { chmod, chown, mkdtemp, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import test from 'ava'
import { pino } from 'pino'
import { appContainer, type HostTraits, tenantNetwork } from '../../../activities/containers/spec.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { engineVersionFinding } from '../../../cli/doctor/engine.ts'
import { parseConfig } from '../../../policy/config.ts'
import { type HostParts, openHost } from '../../../workers/host/host-parts.ts'
import { masterKey } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

/*
 * Fifteen attacks from inside a real container, built exactly as an application's is. Each must be denied, while the
 * neighbour answers and the machine keeps its disk and memory (security baseline b).
 */
const { host, run, clean } = realDocker()
const root = await mkdtemp(`${tmpdir()}/berth-hostile-`)
const volumes = loopVolumes(root)
const traits: HostTraits = { id: run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
const quotaMb = 32
const release = (appId: string, ownerId: string, uid: number): Release => ({
  appId,
  ownerId,
  hostId: run,
  hostAddress: '127.0.0.1',
  number: 1,
  uid,
  ramMb: 256,
  reservedMb: 256,
  cpus: 1,
  diskMb: quotaMb,
  language: 'python',
  runtimeVersion: '3.11',
  main: 'main.py',
  start: null,
  hostname: null,
  source: null,
  path: '',
  restart: true,
  deploymentId: null,
})
const attacker = release('attacker', 'tenant-a', 20_001)
const sibling = release('sibling', 'tenant-a', 20_002)
const stranger = release('stranger', 'tenant-b', 20_003)
const networks = ['tenant-a', 'tenant-b'].map(owner => tenantNetwork(owner, run))
/** A network that is created while the host runs, and one of another host of this machine. */
const [laterNetwork, foreignNetwork] = [tenantNetwork('tenant-c', run), tenantNetwork('tenant-a', `${run}-other`)]
/** The parts of a host process that installs its firewall at its start. */
let started: HostParts | undefined
let attempts = 0
let neighbour = ''
const served = { count: 0, refused: 0 }

const specOf = (of: Release, change: Partial<Release> = {}) =>
  appContainer(
    { ...of, ...change },
    { files: `${volumes.path(of.appId)}/files`, dependencies: null },
    { OWN: 'yes' },
    { ...traits, id: change.hostId ?? run },
  )

/** Starts a small web server as one of the other applications; returns its published port. */
async function serve(of: Release): Promise<number> {
  const start = "exec python3 -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=80)'"
  const spec = specOf(of, { hostname: 'x', start })
  await host.create(spec)
  await host.start(spec.name)
  return (await host.inspect(spec.name))?.hostPort ?? 0
}

/** Runs Python in the attacker's container; returns its output and exit. */
async function attack(script: string, change: Partial<Release> = {}) {
  await writeFile(`${volumes.path('attacker')}/files/main.py`, script)
  let output = ''
  const spec = specOf(attacker, { number: ++attempts, ...change })
  const end = await host.runToEnd(
    spec,
    text => {
      output += text
    },
    AbortSignal.timeout(60_000),
  )
  return { ...end, output: output.trim() }
}

/** The error name (`ENAME`) of each of these expressions, or `done`. */
const denied = (...expressions: string[]): Promise<string[]> => deniedAs({}, ...expressions)

async function deniedAs(change: Partial<Release>, ...expressions: string[]): Promise<string[]> {
  const tries = expressions.map(expression => `attempt(lambda: ${expression})`).join('\n')
  const { output } = await attack(`${prelude}\n${tries}`, change)
  return output.split('\n')
}

const prelude = `
import ctypes, errno, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
  if getattr(libc, name)(*args) != 0:
    raise OSError(ctypes.get_errno(), name)
def connect(address, port):
  socket.create_connection((address, port), timeout=3).close()
def attempt(act):
  try:
    act(); print('done')
  except TimeoutError: print('ETIMEDOUT')
  except OSError as e: print(errno.errorcode.get(e.errno, str(e)))
`

async function memoryAvailableMb(): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8')
  return Number(/MemAvailable:\s+(\d+)/.exec(text)?.[1]) / 1024
}

async function diskFreeMb(): Promise<number> {
  const { bavail, bsize } = await statfs(root)
  return (bavail * bsize) / 1024 / 1024
}

const open = { services: [] as Server[], connections: 0 }
/** Stands in for Postgres, Temporal, the object store and the internal API on this machine. */
async function service(address: string): Promise<number> {
  const server = createServer(socket => {
    open.connections++
    socket.destroy()
  })
  await new Promise<void>(done => server.listen(0, address, done))
  open.services.push(server)
  return (server.address() as { port: number }).port
}

let before = { memory: 0, disk: 0 }
let asking: NodeJS.Timeout

test.before(async () => {
  await host.ensureImage('berth/python:3.11')
  for (const network of networks) await host.ensureNetwork(network)
  for (const { appId, uid } of [attacker, sibling, stranger]) await volumes.ensure(appId, quotaMb, uid)
  await writeFile(`${volumes.path('sibling')}/files/canary-sibling`, 'secret of the neighbour')
  neighbour = `http://127.0.0.1:${await serve(sibling)}/canary-sibling`
  await serve(stranger)
  await comesTrue(async () => (await fetch(neighbour).catch(() => null))?.ok)
  before = { memory: await memoryAvailableMb(), disk: await diskFreeMb() }
  asking = setInterval(async () => {
    const answer = await fetch(neighbour, { signal: AbortSignal.timeout(5000) }).catch(() => null)
    if (answer?.ok) served.count++
    else served.refused++
  }, 100)
})

test.after.always(async () => {
  clearInterval(asking)
  for (const server of open.services) server.close()
  await started?.firewall?.remove()
  await started?.close()
  await clean(...[...networks, laterNetwork, foreignNetwork].map(network => network.name))
  for (const id of await volumes.list()) await volumes.remove(id)
  await rm(root, { recursive: true, force: true })
})

test.serial(
  'a container reaches the host until a host process is opened, whose firewall is for its own bridges',
  async t => {
    const port = await service('0.0.0.0')
    const [gateway] = await addresses()
    const tries = `connect('${gateway}', ${port})`
    t.deepEqual(await denied(tries), ['done'], 'the probes below can fail')
    const environment = {
      ...{ BERTH_DATA: `${root}/data`, BERTH_MASTER_KEY: masterKey, HOST_NAME: run, HOST_QUOTA: 'off' },
      DATABASE_URL: 'postgres://127.0.0.1:9/none',
    }
    started = await openHost(parseConfig(environment, '/'), pino({ level: 'silent' }))
    t.regex(started.protections.firewall ?? '', /^on/)
    t.deepEqual(await denied(tries), ['ECONNREFUSED'])
    for (const network of [laterNetwork, foreignNetwork]) await host.ensureNetwork(network)
    t.deepEqual(await deniedAs({ ownerId: 'tenant-c' }, tries), ['ECONNREFUSED'], 'a network that is made later')
    t.deepEqual(await deniedAs({ hostId: `${run}-other` }, tries), ['done'], 'what is another host’s is left alone')
  },
)

test.serial('0 the process has no capability, cannot gain one, and is filtered', async t => {
  const { output } = await attack("print(open('/proc/self/status').read())")
  for (const fact of [
    /CapEff:\t0+$/m,
    /CapPrm:\t0+$/m,
    /CapBnd:\t0+$/m,
    /NoNewPrivs:\t1$/m,
    /Seccomp:\t2$/m,
    /Uid:\t20001\t/,
  ])
    t.regex(output, fact)
})

test.serial('1 the root file system cannot be written', async t => {
  const { output } = await attack("print([l.split()[3][:2] for l in open('/proc/mounts') if l.split()[1] == '/'])")
  t.is(output, "['ro']")
  const places = ['/x', '/etc/x', '/usr/bin/x', '/var/tmp/x', '/dev/shm/../x']
  for (const code of await denied(...places.map(place => `open('${place}', 'w')`))) t.regex(code, /^(EROFS|EACCES)$/)
  t.deepEqual(await denied("open('/tmp/x', 'w')", "open('/app/x', 'w')"), ['done', 'done'])
})

test.serial('2 nothing can be mounted', async t => {
  t.deepEqual(await denied("call('mount', b'none', b'/tmp', b'tmpfs', 0, None)", "call('umount2', b'/app', 0)"), [
    'EPERM',
    'EPERM',
  ])
})

test.serial('3 no new namespace can be created', async t => {
  const [user, mount] = [0x10000000, 0x00020000]
  t.deepEqual(await denied(`call('unshare', ${user})`, `call('unshare', ${mount})`), ['EPERM', 'EPERM'])
})

test.serial('4 no device can be created', async t => {
  const make = (kind: string) => `os.mknod('/app/device', ${kind} | 0o600, os.makedev(1, 3))`
  t.deepEqual(await denied(make('stat.S_IFCHR'), make('stat.S_IFBLK')), ['EPERM', 'EPERM'])
})

test.serial('5 a setuid program gains nothing, nor does one in /tmp run at all', async t => {
  await attack("import shutil; shutil.copy('/usr/bin/id', '/app/id')")
  const program = `${volumes.path('attacker')}/files/id`
  await chown(program, 0, 0)
  await chmod(program, 0o4755)
  const { output } = await attack("import os, subprocess; print(subprocess.check_output(['/app/id', '-u'], text=True))")
  t.is(output, '20001')
  const tmp = "import shutil, subprocess; shutil.copy('/usr/bin/id', '/tmp/id'); subprocess.run(['/tmp/id'])"
  t.regex((await attack(tmp)).output, /PermissionError/)
})

test.serial('6 forks end at the limit', async t => {
  const script = `${prelude}
import time, sys
made = 0
for _ in range(200):
  try:
    if os.fork() == 0:
      time.sleep(20); os._exit(0)
    made += 1
  except OSError as e: break
print(made, flush=True)
os._exit(0)`
  const { output } = await attack(script)
  t.true(Number(output) > 10 && Number(output) < 64, output)
})

test.serial('7 twice the memory ends the program, and the status says why', async t => {
  const { exitCode, oom } = await attack('hold = [bytearray(1024 * 1024) for _ in range(512)]')
  t.deepEqual({ exitCode, oom }, { exitCode: 137, oom: true })
})

test.serial('8 twice the quota cannot be written', async t => {
  const { output } = await attack(`${prelude}
def fill():
  with open('/app/big', 'wb') as f:
    for _ in range(${quotaMb * 2}): f.write(bytes(1024 * 1024)); f.flush()
attempt(fill)
os.unlink('/app/big')`)
  t.is(output, 'ENOSPC')
  t.true((await stat(`${root}/images/attacker.ext4`)).blocks * 512 <= quotaMb * 1024 * 1024)
})

test.serial('9 endless log lines stay within 10 MB', async t => {
  await writeFile(`${volumes.path('attacker')}/files/main.py`, "for n in range(200_000): print('x' * 90, n)")
  const spec = specOf(attacker, { number: ++attempts })
  const id = await host.create(spec)
  await host.start(spec.name)
  await comesTrue(async () => (await host.inspect(spec.name))?.running === false)
  const folder = `${(await engineFact('/info')).DockerRootDir}/containers/${id}`
  const logs = (await readdir(folder)).filter(name => name.includes('-json.log'))
  const sizes = await Promise.all(logs.map(async name => (await stat(`${folder}/${name}`)).size))
  const total = sizes.reduce((sum, size) => sum + size, 0)
  t.true(total > 1_000_000 && total <= 10_600_000, String(total))
  t.true(Buffer.byteLength((await host.logs(spec.name, 100_000)) ?? '') <= 100_000)
  await host.remove(spec.name)
})

test.serial('10 another application’s files cannot be found', async t => {
  const path = `${volumes.path('sibling')}/files`
  t.deepEqual(await denied(`os.listdir('${path}')`, `os.listdir('/app/../../..${path}')`), ['ENOENT', 'ENOENT'])
  const { output } = await attack(
    "import os; print([f for d, _, fs in os.walk('/') for f in fs if f == 'canary-sibling'], os.path.exists('/app/main.py'))",
  )
  t.is(output, '[] True')
  // The kernel shows everyone the file behind a loop device, which is named like the application.
  const files = await attack(
    "import glob; print([open(f).read() for f in glob.glob('/sys/block/*/loop/backing_file')])",
  )
  t.is(files.output, '[]')
})

test.serial('11 no other container answers, of the same tenant or of another', async t => {
  const others = [(await place(sibling)).IPAddress, (await place(stranger)).IPAddress]
  for (const code of await denied(...others.map(address => `connect('${address}', 80)`))) {
    t.regex(code, /^(ETIMEDOUT|ECONNREFUSED|EHOSTUNREACH)$/)
  }
})

test.serial('12 the host’s own services cannot be reached by any of its addresses', async t => {
  const everywhere = await service('0.0.0.0')
  const loopback = await service('127.0.0.1')
  const published = Number(new URL(neighbour).port)
  open.connections = 0
  const tries = (await addresses()).flatMap(address =>
    [everywhere, loopback, published].map(port => `connect('${address}', ${port})`),
  )
  const codes = await denied(...tries)
  t.is(codes.length, tries.length)
  for (const code of codes) t.regex(code, /^(ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH)$/)
  t.is(open.connections, 0)
})

test.serial('13 cloud metadata and private networks are refused immediately', async t => {
  const startTime = Date.now()
  const targets = ['169.254.169.254', '10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1']
  const codes = await denied(...targets.map(address => `connect('${address}', 80)`))
  t.deepEqual(
    codes,
    targets.map(() => 'ECONNREFUSED'),
  )
  t.true(Date.now() - startTime < 10_000)
})

test.serial('14 no engine socket, and only its own variables in the environment', async t => {
  const script = `import os
print([p for p in ['/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock'] if os.path.exists(p)])
names = lambda pid: sorted(part.split('=')[0] for part in open(f'/proc/{pid}/environ').read().split('\\0') if part)
print(set(names('self')) - set(names(1)) <= {'PWD', 'LC_CTYPE'}, names(1))`
  const { output } = await attack(script)
  const own = ['HOME', 'HOSTNAME', 'OWN', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPATH', 'PYTHONUNBUFFERED']
  t.is(output.replaceAll("'", '"'), `[]\nTrue ${JSON.stringify(own).replaceAll(',', ', ')}`)
})

test.serial('15 dangerous system calls are filtered', async t => {
  // The answer of the filter, not of the call: the kernel would refuse these arguments with another code.
  const numbers: Record<string, Record<string, number>> = {
    x64: {
      ...{ add_key: 248, request_key: 249, keyctl: 250, bpf: 321, userfaultfd: 323, perf_event_open: 298 },
      ...{ kexec_load: 246, finit_module: 313, open_by_handle_at: 304, setns: 308, fsopen: 430 },
      ...{
        open_tree: 428,
        move_mount: 429,
        mount_setattr: 442,
        pidfd_getfd: 438,
        move_pages: 279,
        mbind: 237,
        acct: 163,
      },
    },
    arm64: {
      ...{ add_key: 217, request_key: 218, keyctl: 219, bpf: 280, userfaultfd: 282, perf_event_open: 241 },
      ...{ kexec_load: 104, finit_module: 273, open_by_handle_at: 265, setns: 268, fsopen: 430 },
      ...{
        open_tree: 428,
        move_mount: 429,
        mount_setattr: 442,
        pidfd_getfd: 438,
        move_pages: 239,
        mbind: 235,
        acct: 89,
      },
    },
  }
  const calls = numbers[process.arch]!
  const tries = Object.values(calls).map(number => `call('syscall', ${number}, -1, -1, -1, -1, -1)`)
  const codes = await denied(...tries)
  t.deepEqual(
    Object.keys(calls).map((name, n) => `${name} ${codes[n]}`),
    Object.keys(calls).map(name => `${name} EPERM`),
  )
  // The doctor reports a call that filters before version 25 allow.
  const [uring] = await denied("call('syscall', 425, 0, 0)")
  const disabled = await readFile('/proc/sys/kernel/io_uring_disabled', 'utf8').catch(() => null)
  const { Version } = await engineFact('/version')
  const reported = engineVersionFinding(Version, '', disabled?.trim() ?? null).remedy ?? ''
  t.is(uring === 'EPERM', !reported.includes('io_uring'), `${uring}: ${reported}`)
})

test.serial('meanwhile the neighbour answered and the machine lost no disk or memory', async t => {
  t.true(served.count > 50, `${served.count} answers`)
  t.is(served.refused, 0)
  t.true(before.memory - (await memoryAvailableMb()) < 1500)
  t.true(before.disk - (await diskFreeMb()) < 1500)
})

/** The gateway of the attacker's network first, then every IPv4 address of this machine that is not loopback or a bridge. */
async function addresses(): Promise<string[]> {
  const own = Object.entries(networkInterfaces()).filter(([name]) => !/^(berth|docker|br-|veth)/.test(name))
  const others = own.flatMap(([, list]) => list ?? []).filter(({ family, internal }) => family === 'IPv4' && !internal)
  return [(await place(sibling)).Gateway, ...others.map(({ address }) => address)]
}

/** Address and gateway of an application's container. */
async function place({ appId }: Release): Promise<{ IPAddress: string; Gateway: string }> {
  const { NetworkSettings } = await engineFact(`/containers/berth-${appId}-1/json`)
  return Object.values<{ IPAddress: string; Gateway: string }>(NetworkSettings.Networks)[0]!
}
