import type { ContainerInfo, ContainerInspectInfo } from 'dockerode'
import { MiB } from '../../../lib/bytes.ts'
import type { ContainerState, ListedContainer, StartedContainer } from '../port.ts'

/** The engine's description of a container in our terms. The engine writes year 1 for times that never came. */
export function containerState(info: ContainerInspectInfo): ContainerState {
  const { State: state } = info
  const published = state.Running ? publishedAt(info) : undefined
  const startedAt = time(state.StartedAt)
  const finishedAt = state.Running ? null : time(state.FinishedAt)
  return {
    id: info.Id,
    name: info.Name.replace(/^\//, ''),
    labels: info.Config.Labels ?? {},
    ...(info.Image && { imageId: info.Image }),
    status: state.Status as ContainerState['status'],
    running: state.Running,
    exitCode: state.Status === 'exited' || state.Status === 'dead' ? state.ExitCode : null,
    oom: state.OOMKilled,
    startedAt,
    // If a program ends immediately, the engine records its end before its start.
    finishedAt: finishedAt && startedAt && finishedAt < startedAt ? startedAt : finishedAt,
    hostPort: published ? Number(published.HostPort) : null,
    hostAddress: published?.HostIp ?? null,
    address: state.Running ? addressIn(info.NetworkSettings.Networks) : null,
    ...(state.Running && { process: { pid: state.Pid, memoryMb: (info.HostConfig.Memory ?? 0) / MiB } }),
    ...connectionIn(info),
  }
}

function connectionIn({
  State,
  HostConfig,
  NetworkSettings,
}: ContainerInspectInfo): Pick<ContainerState, 'connection'> {
  const { SandboxKey: network, Networks: networks } = NetworkSettings
  const [place] = Object.values(networks)
  if (!State.Running || HostConfig.NetworkMode === 'none' || !network || !place) return {}
  return { connection: { network, range: `${place.IPAddress}/${place.IPPrefixLen}`, gateway: place.Gateway } }
}

/** A container that runs, with its network; null when it has none, or has ended. */
export function connectedContainer(info: ContainerInspectInfo): StartedContainer | null {
  const { name, labels, process, connection } = containerState(info)
  return connection ? { name, labels, memoryMb: process?.memoryMb ?? 0, ...connection } : null
}

/** A container as the engine lists it. A paused container counts as running; only running ones have published ports. */
export function listedContainer(info: ContainerInfo): ListedContainer {
  const status = info.State as ContainerState['status']
  const running = status === 'running' || status === 'paused' || status === 'restarting'
  const published = running ? info.Ports.find(({ PublicPort }) => PublicPort) : undefined
  return {
    id: info.Id,
    name: (info.Names[0] ?? '').replace(/^\//, ''),
    labels: info.Labels ?? {},
    status,
    running,
    hostPort: published?.PublicPort ?? null,
    hostAddress: published?.IP ?? null,
    address: running ? addressIn(info.NetworkSettings.Networks) : null,
  }
}

/** A container of Berth is in one network; in `none` it has no address. */
const addressIn = (networks: Record<string, { IPAddress: string }> | undefined): string | null =>
  Object.values(networks ?? {})[0]?.IPAddress || null

function time(text: string): Date | null {
  const date = new Date(text)
  return date.getTime() > 0 ? date : null
}

function publishedAt(info: ContainerInspectInfo): { HostIp: string; HostPort: string } | undefined {
  const [published] = Object.values(info.NetworkSettings.Ports ?? {}).filter(Boolean)
  return published?.[0]
}
