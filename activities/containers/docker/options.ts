import type { ContainerCreateOptions } from 'dockerode'
import { MiB } from '../../../lib/bytes.ts'
import { cpuSharesFor, openFilesFor } from '../../../policy/apps/sizes.ts'
import type { ContainerSpec, DiskLimits } from '../port.ts'
import { shareGroup } from './shares.ts'

/** The hardening of every container of Berth; the reasons are in docs/decisions/containers.md. */
const hardened = {
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
  // Each container has its own network namespace, so this only opens port 80 to a program without root.
  Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
  MaskedPaths: [
    // The engine's defaults, which our list replaces.
    ...['acpi', 'asound', 'interrupts', 'kcore', 'keys', 'latency_stats', 'sched_debug', 'scsi', 'timer_list'].map(
      name => `/proc/${name}`,
    ),
    ...['/proc/timer_stats', '/sys/firmware', '/sys/devices/virtual/powercap'],
    // Shows the file behind every loop device of the machine, and so the applications of all accounts.
    '/sys/devices/virtual/block',
  ],
} as const

/** How an engine creates control groups: its driver, and their version (`1` or `2`). */
export interface Cgroups {
  driver: string
  version: string
}

/** The request to an engine with such control groups. Pure: the test compares the value. */
export function createOptions(spec: ContainerSpec, { driver }: Pick<Cgroups, 'driver'>): ContainerCreateOptions {
  const [program, ...args] = spec.command
  const [uid, gid] = spec.user.split(':')
  const memory = spec.memoryMb * MiB
  const openFiles = openFilesFor(spec.memoryMb)
  return {
    name: spec.name,
    Image: spec.image,
    // Replaces the entry point of official images, which expect to start as root.
    Entrypoint: program === undefined ? undefined : [program],
    Cmd: args,
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    Labels: spec.labels,
    User: spec.user,
    WorkingDir: spec.workingDir,
    ...(spec.stopSignal && { StopSignal: spec.stopSignal }),
    StopTimeout: spec.stopTimeoutSeconds,
    Healthcheck: { Test: ['NONE'] },
    ExposedPorts: spec.publish ? { [`${spec.publish.port}/tcp`]: {} } : {},
    HostConfig: {
      ...structuredClone(hardened as object),
      ...(spec.log === 'none' && { LogConfig: { Type: 'none', Config: {} } }),
      Runtime: spec.runtime,
      NetworkMode: spec.network,
      ...(spec.ownNames && { ExtraHosts: spec.ownNames.map(name => `${name}:127.0.0.1`) }),
      Memory: memory,
      MemorySwap: memory,
      NanoCpus: Math.round(spec.cpus * 1e9),
      // Limits but no weight for disks: where the kernel has no weights, the engine would start no container at all.
      ...(spec.disk ? diskOptions(spec.disk) : {}),
      CpuShares: cpuSharesFor(spec.memoryMb),
      ...(spec.share === undefined ? {} : { CgroupParent: shareGroup(driver, spec.share) }),
      PidsLimit: spec.pidsLimit,
      Ulimits: [
        { Name: 'nofile', Soft: openFiles, Hard: openFiles },
        // Counted per user over all its containers, so generous; PidsLimit bounds each container.
        { Name: 'nproc', Soft: 4096, Hard: 4096 },
        { Name: 'core', Soft: 0, Hard: 0 },
      ],
      // `mode=` is ignored where the image has a /tmp of its own, owner and group are not.
      ...(spec.shmMb !== undefined && { ShmSize: spec.shmMb * MiB }),
      Tmpfs: { '/tmp': `rw,noexec,nosuid,nodev,size=${spec.tmpMb}m,uid=${uid},gid=${gid ?? uid}` },
      Mounts: spec.binds.map(({ source, target, readOnly }) => ({
        Type: 'bind',
        Source: source,
        Target: target,
        ReadOnly: readOnly,
        BindOptions: { Propagation: 'rprivate' },
      })),
      PortBindings: spec.publish
        ? {
            [`${spec.publish.port}/tcp`]: [
              { HostIp: spec.publish.address, HostPort: String(spec.publish.hostPort ?? '') },
            ],
          }
        : {},
    },
    ...(spec.aliases && { NetworkingConfig: { EndpointsConfig: { [spec.network]: { Aliases: spec.aliases } } } }),
  }
}

/** An engine whose kernel cannot limit disks logs a warning and starts the container without limits. */
function diskOptions({ mbps, iops, own, host }: DiskLimits): ContainerCreateOptions['HostConfig'] {
  const rates = (devices: (string | null)[], Rate: number) =>
    Rate === 0 ? [] : devices.flatMap(Path => (Path ? [{ Path, Rate }] : []))
  return {
    BlkioDeviceReadBps: rates([own, host], mbps * MiB),
    BlkioDeviceReadIOps: rates([own, host], iops),
    BlkioDeviceWriteBps: rates([own], mbps * MiB),
    BlkioDeviceWriteIOps: rates([own], iops),
  }
}

/** Separates the query from the body: the library would otherwise repeat every option in the URL, where the engine may log the variables' values. */
export function createRequest(
  spec: ContainerSpec,
  cgroups: Pick<Cgroups, 'driver'>,
  abortSignal: AbortSignal,
): ContainerCreateOptions {
  const { name, ...body } = createOptions(spec, cgroups)
  return { _query: { name }, _body: body, abortSignal } as ContainerCreateOptions
}
