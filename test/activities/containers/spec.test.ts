import test from 'ava'
import { daemonArguments } from '../../../activities/containers/daemon.ts'
import { createOptions } from '../../../activities/containers/docker/options.ts'
import { freeSubnets, overlaps, parseSubnet } from '../../../activities/containers/docker/subnets.ts'
import { bridgeName, bridgePrefix, buildBridgePrefix } from '../../../activities/containers/network-names.ts'
import { newest, OutputFrames } from '../../../activities/containers/output.ts'
import {
  appContainer,
  buildContainer,
  buildNetwork,
  type HostTraits,
  tenantNetwork,
} from '../../../activities/containers/spec.ts'
import { containerResidentBytes, statsBetween } from '../../../activities/containers/stats.ts'
import type { Release } from '../../../activities/releases/release.ts'

const host: HostTraits = { id: 'one', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
const release: Release = {
  appId: 'ab12'.repeat(6),
  ownerId: '123456789012345678',
  hostId: 'one',
  hostAddress: '127.0.0.1',
  number: 3,
  uid: 10_007,
  ramMb: 512,
  reservedMb: 512,
  cpus: 1,
  diskMb: 2048,
  language: 'javascript',
  runtimeVersion: '22',
  main: 'index.js',
  start: null,
  hostname: 'shop.apps.localhost',
  source: null,
  path: '',
  restart: true,
  deploymentId: null,
}
const labels = {
  'berth.host': 'one',
  'berth.app': release.appId,
  'berth.owner': release.ownerId,
  'berth.release': '3',
}

const cgroups = { driver: 'cgroupfs' }

test('the container of a web application', t => {
  const spec = appContainer(
    release,
    { files: '/v/files', dependencies: '/v/releases/3/dependencies' },
    { A: 'b', PORT: '1' },
    host,
  )
  t.deepEqual(spec, {
    name: `berth-${release.appId}-3`,
    image: 'berth/node:22',
    command: ['sh', '-c', 'exec node index.js'],
    env: { HOME: '/tmp', NODE_ENV: 'production', NPM_CONFIG_UPDATE_NOTIFIER: 'false', A: 'b', PORT: '80' },
    labels: { ...labels, 'berth.role': 'app' },
    user: '10007:10007',
    workingDir: '/app',
    memoryMb: 512,
    cpus: 1,
    pidsLimit: 128,
    share: '123456789012345678',
    network: 'berth-one-123456789012345678',
    binds: [
      { source: '/v/files', target: '/app', readOnly: false },
      { source: '/v/releases/3/dependencies', target: '/app/node_modules', readOnly: true },
    ],
    publish: { port: 80, address: '127.0.0.1' },
    stopTimeoutSeconds: 10,
    runtime: 'runc',
    tmpMb: 64,
  })
})

test('a program without a host name has no port, and START replaces the start command', t => {
  const spec = appContainer(
    { ...release, hostname: null, start: 'npm start' },
    { files: '/v', dependencies: null },
    {},
    host,
  )
  t.is(spec.publish, null)
  t.false('PORT' in spec.env)
  t.deepEqual(spec.command, ['sh', '-c', 'npm start'])
  t.is(spec.binds.length, 1)
})

test('application and build run under the runtime of their host', t => {
  const walled: HostTraits = { ...host, runtime: 'runsc' }
  const places = { files: '/v/files', dependencies: null }
  const runtimes = [
    appContainer(release, places, {}, walled).runtime,
    buildContainer(release, '/v/source', 'npm ci', walled).runtime,
  ]
  t.deepEqual(runtimes, ['runsc', 'runsc'])
  t.is(createOptions(appContainer(release, places, {}, walled), cgroups).HostConfig?.Runtime, 'runsc')
})

test('the build has the same isolation, more memory, and none of the application’s variables', t => {
  const buildProxy = { https: 'http://proxy:3128', http: null, none: '.corp' }
  const closed = { ...host, buildProxy, caBundle: '/etc/ca.pem' }
  const spec = buildContainer(release, '/v/source', 'npm ci', closed)
  t.like(spec, {
    name: `berth-${release.appId}-3-build`,
    memoryMb: 2048,
    publish: null,
    user: '10007:10007',
    network: 'berth-one-builds',
  })
  t.is(buildContainer({ ...release, reservedMb: 4096 }, '/v/source', 'npm ci', closed).memoryMb, 4096)
  t.is(buildContainer({ ...release, ramMb: 32_768 }, '/v/source', 'npm ci', closed).memoryMb, 2048, 'not reserved yet')
  t.is(
    createOptions(spec, cgroups).HostConfig?.CpuShares,
    128,
    'after its own memory: an install step ends after 15 minutes',
  )
  t.deepEqual(spec.labels, { ...labels, 'berth.role': 'build' })
  t.like(spec.env, {
    HTTPS_PROXY: 'http://proxy:3128',
    https_proxy: 'http://proxy:3128',
    NO_PROXY: '.corp',
    no_proxy: '.corp',
    NODE_EXTRA_CA_CERTS: '/etc/berth-ca.pem',
    PIP_CERT: '/etc/berth-ca.pem',
  })
  t.false('HTTP_PROXY' in spec.env)
  t.deepEqual(spec.binds[1], { source: '/etc/ca.pem', target: '/etc/berth-ca.pem', readOnly: true })
  t.deepEqual(buildContainer(release, '/v/source', 'npm ci', host).env, { HOME: '/tmp', CI: 'true' })
})

test('a request to the engine contains the whole hardening table', t => {
  const spec = appContainer(release, { files: '/v/files', dependencies: null }, {}, host)
  const options = createOptions(spec, cgroups)
  t.deepEqual(options.HostConfig, {
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges:true'],
    Privileged: false,
    ReadonlyRootfs: true,
    IpcMode: 'private',
    CgroupnsMode: 'private',
    Init: true,
    OomScoreAdj: 500,
    RestartPolicy: { Name: 'no' },
    LogConfig: { Type: 'json-file', Config: { 'max-size': '5m', 'max-file': '2' } },
    Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
    MaskedPaths: [
      '/proc/acpi',
      '/proc/asound',
      '/proc/interrupts',
      '/proc/kcore',
      '/proc/keys',
      '/proc/latency_stats',
      '/proc/sched_debug',
      '/proc/scsi',
      '/proc/timer_list',
      '/proc/timer_stats',
      '/sys/firmware',
      '/sys/devices/virtual/powercap',
      '/sys/devices/virtual/block',
    ],
    Runtime: 'runc',
    NetworkMode: 'berth-one-123456789012345678',
    Memory: 512 * 1024 * 1024,
    MemorySwap: 512 * 1024 * 1024,
    NanoCpus: 1e9,
    CpuShares: 32,
    CgroupParent: '/berth/123456789012345678',
    PidsLimit: 128,
    Ulimits: [
      { Name: 'nofile', Soft: 1024, Hard: 1024 },
      { Name: 'nproc', Soft: 4096, Hard: 4096 },
      { Name: 'core', Soft: 0, Hard: 0 },
    ],
    Tmpfs: { '/tmp': 'rw,noexec,nosuid,nodev,size=64m,uid=10007,gid=10007' },
    Mounts: [
      { Type: 'bind', Source: '/v/files', Target: '/app', ReadOnly: false, BindOptions: { Propagation: 'rprivate' } },
    ],
    PortBindings: { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] },
  })
  t.like(options, { User: '10007:10007', Entrypoint: ['sh'], Cmd: ['-c', 'exec node index.js'], StopTimeout: 10 })
  t.deepEqual(options.Healthcheck, { Test: ['NONE'] })
  const parent = (driver: string) => createOptions(spec, { driver }).HostConfig?.CgroupParent
  t.is(parent('systemd'), 'berth-123456789012345678.slice')
  t.is(parent('none'), undefined)
})

test('each option of a container changes only its own part of the request', t => {
  const spec = appContainer(release, { files: '/v/files', dependencies: null }, {}, host)
  const plain = createOptions(spec, cgroups)
  const asked = createOptions(
    {
      ...spec,
      ...{ aliases: ['db-1.apps.localhost'], ownNames: ['db-1'], stopSignal: 'SIGINT', shmMb: 256, log: 'none' },
      publish: { port: 20_001, address: '127.0.0.1', hostPort: 20_001 },
    },
    cgroups,
  )
  t.deepEqual(asked, {
    ...plain,
    StopSignal: 'SIGINT',
    ExposedPorts: { '20001/tcp': {} },
    NetworkingConfig: { EndpointsConfig: { [spec.network]: { Aliases: ['db-1.apps.localhost'] } } },
    HostConfig: {
      ...plain.HostConfig,
      LogConfig: { Type: 'none', Config: {} },
      ExtraHosts: ['db-1:127.0.0.1'],
      ShmSize: 256 * 1024 * 1024,
      PortBindings: { '20001/tcp': [{ HostIp: '127.0.0.1', HostPort: '20001' }] },
    },
  })
  for (const name of ['StopSignal', 'NetworkingConfig']) t.false(name in plain, name)
  for (const name of ['ShmSize', 'ExtraHosts']) t.false(name in plain.HostConfig!, name)
})

test('a tenant has one network on each host, whose bridge the kernel and the firewall can name', t => {
  const network = tenantNetwork('123456789012345678', 'one')
  t.deepEqual(network, {
    name: 'berth-one-123456789012345678',
    labels: { 'berth.host': 'one', 'berth.owner': '123456789012345678' },
  })
  t.regex(bridgeName(network), /^bt[0-9a-z]{13}$/)
  t.true(bridgeName(network).startsWith(bridgePrefix('one')))
  t.false(bridgeName(tenantNetwork('123456789012345678', 'two')).startsWith(bridgePrefix('one')))
})

test('builds of all owners have one network on each host, distinguished from those of applications by its bridge', t => {
  const network = buildNetwork('one')
  t.deepEqual(network, { name: 'berth-one-builds', labels: { 'berth.host': 'one', 'berth.role': 'build' } })
  t.regex(bridgeName(network), /^bb[0-9a-z]{13}$/)
  t.true(bridgeName(network).startsWith(buildBridgePrefix('one')))
  t.false(bridgeName(buildNetwork('two')).startsWith(buildBridgePrefix('one')))
})

test('output frames may be cut anywhere, even inside a character', t => {
  const frame = (stream: number, text: string) => {
    const body = Buffer.from(text)
    const head = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
    head.writeUInt32BE(body.length, 4)
    return Buffer.concat([head, body])
  }
  const bytes = Buffer.concat([frame(1, 'olá '), frame(2, 'erro\n'), frame(1, ''), frame(1, 'ção 🚢\n')])
  for (let size = 1; size <= bytes.length; size++) {
    const frames = new OutputFrames()
    let text = ''
    for (let at = 0; at < bytes.length; at += size) text += frames.push(bytes.subarray(at, at + size))
    t.is(text, 'olá erro\nção 🚢\n', `chunks of ${size}`)
  }
})

test('the newest part of a log starts with a whole line, otherwise with a whole character', t => {
  t.is(newest('one\ntwo\nthree\n', 100), 'one\ntwo\nthree\n')
  t.is(newest('one\ntwo\nthree\n', 9), 'three\n')
  t.is(newest('ééé', 3), 'é')
})

test('readings: CPU by the clock of the readings, memory without page cache, on both cgroup versions', t => {
  const at = (seconds: number, busySeconds: number, stats: Record<string, number>) => ({
    read: new Date(seconds * 1000).toISOString(),
    cpu_stats: { cpu_usage: { total_usage: busySeconds * 1e9 } },
    memory_stats: { usage: 1000, limit: 5000, stats },
    networks: { eth0: { rx_bytes: 1, tx_bytes: 2 }, eth1: { rx_bytes: 10, tx_bytes: 20 } },
    blkio_stats: {
      io_service_bytes_recursive: [
        { op: 'Read', value: 5 },
        { op: 'write', value: 7 },
        { op: 'Total', value: 12 },
      ],
    },
  })
  const expected = {
    cpuPercent: 150,
    memoryBytes: 600,
    memoryLimitBytes: 5000,
    networkIn: 11,
    networkOut: 22,
    blockRead: 5,
    blockWrite: 7,
  }
  t.deepEqual(statsBetween(at(10, 1, {}), at(12, 4, { total_inactive_file: 400, cache: 900 })), expected)
  t.deepEqual(statsBetween(at(10, 1, {}), at(12, 4, { inactive_file: 400, file: 900 })), expected)
  t.is(statsBetween(at(10, 4, {}), at(12, 1, {})).cpuPercent, 0)
})

test('memory that processes cannot give back is what the kernel lists as anonymous, shared memory included', t => {
  const at = (stats: Record<string, number>) => ({
    read: '',
    cpu_stats: { cpu_usage: { total_usage: 0 } },
    memory_stats: { usage: 1000, stats },
  })
  t.is(containerResidentBytes(at({ active_anon: 100, inactive_anon: 20, active_file: 500, inactive_file: 300 })), 120)
  const withGroups = { total_active_anon: 400, total_inactive_anon: 30, total_active_file: 500 }
  t.is(
    containerResidentBytes(at({ active_anon: 1, inactive_anon: 1, ...withGroups })),
    430,
    'of version 1, with child groups',
  )
  t.is(containerResidentBytes(at({ inactive_file: 300 })), 700, 'where the kernel does not tell')
})

test('ranges of networks are parsed, compared and chosen without overlap', t => {
  t.is(parseSubnet('10.1.2.3/24')?.join('/'), '10.1.2.0/24')
  for (const bad of ['10.1.2.0', '10.1.2.256/24', '10.1.2/24', '10.010.2.0/24', '10.1.2.0/33', 'fd00::/64', ''])
    t.is(parseSubnet(bad), null, bad)
  t.true(overlaps(parseSubnet('10.0.0.0/8')!, parseSubnet('10.1.2.0/24')!))
  t.false(overlaps(parseSubnet('10.1.2.0/24')!, parseSubnet('10.1.3.0/24')!))
  const pool = parseSubnet('10.9.0.0/22')!
  const all = [...freeSubnets(pool, 24, 'a', [])]
  t.deepEqual([...all].sort(), ['10.9.0.0/24', '10.9.1.0/24', '10.9.2.0/24', '10.9.3.0/24'])
  t.deepEqual([...freeSubnets(pool, 24, 'a', [])], all)
  t.deepEqual([...freeSubnets(pool, 24, 'a', [parseSubnet('10.9.0.0/23')!])].sort(), ['10.9.2.0/24', '10.9.3.0/24'])
  t.deepEqual([...freeSubnets(pool, 24, 'a', [parseSubnet('10.0.0.0/8')!])], [])
})

test('an engine of Berth listens only on a socket and keeps containers running', t => {
  const args = daemonArguments({ socket: 'unix:///run/x.sock', dataRoot: '/d', userNamespaces: true })
  t.deepEqual(
    args.filter(arg => arg.startsWith('--host')),
    ['--host=unix:///run/x.sock'],
  )
  for (const wanted of [
    '--live-restore',
    '--no-new-privileges',
    '--userland-proxy=false',
    '--icc=false',
    '--data-root=/d',
    '--userns-remap=default',
  ])
    t.true(args.includes(wanted), wanted)
  t.false(daemonArguments({ socket: '/run/x.sock' }).some(arg => /data-root|userns/.test(arg)))
})
