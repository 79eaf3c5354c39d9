import { createHash } from 'node:crypto'
import { pidsFor } from '../../policy/apps/sizes.ts'
import type { BuildProxy } from '../../policy/hosts/build-settings.ts'
import { isOnJvm, keyStoreOf, trustFiles, trustVariables } from '../../policy/hosts/build-trust.ts'
import { runtimes } from '../../policy/runtimes.ts'
import type { Release } from '../releases/release.ts'
import { type ContainerSpec, labels, type NetworkSpec } from './port.ts'

/** Settings that a host adds to its containers; from its configuration. */
export interface HostTraits {
  id: string
  runtime: 'runc' | 'runsc'
  /** Names of configuration files that a static site must not serve. */
  configNames: readonly string[]
  buildProxy: BuildProxy | null
  /** A file with all certificate authorities that install steps trust, with their key store next to it; null = those of their images. */
  caBundle: string | null
}

/** Folders of a release on the host. `dependencies` is null when nothing was installed. */
export interface ReleasePlaces {
  files: string
  dependencies: string | null
}

/** Seconds between the polite signal and the kill. */
export const stopGraceSeconds = 10
const tmpMb = 64
const build = { memoryMb: 2048, cpus: 2, pidsLimit: 512, tmpMb: 1024 } as const

type ReleaseName = Pick<Release, 'appId' | 'number'>

/** Name of the container that runs a release. */
export const appContainerName = ({ appId, number }: ReleaseName): string => `berth-${appId}-${number}`

/** Name of the container that installs a release. */
export const buildContainerName = (release: ReleaseName): string => `${appContainerName(release)}-build`

/** The one network of an owner on a host: containers in it reach no other network, and each other only where the firewall admits it. */
export function tenantNetwork(ownerId: string, hostId: string): NetworkSpec {
  return { name: `berth-${hostId}-${ownerId}`, labels: { [labels.host]: hostId, [labels.owner]: ownerId } }
}

/**
 * The one network of all builds on a host, separate from every application's: the bridge identifies what is open to builds, such as
 * their proxy. Containers in it cannot talk to each other either. It is never removed: builds need one range for all owners.
 */
export function buildNetwork(hostId: string): NetworkSpec {
  return { name: `berth-${hostId}-builds`, labels: { [labels.host]: hostId, [labels.role]: 'build' } }
}

/** The container that runs a release. `env` are the application's own variables; PORT is always the platform's. */
export function appContainer(
  release: Release,
  places: ReleasePlaces,
  env: Readonly<Record<string, string>>,
  host: HostTraits,
): ContainerSpec {
  const runtime = runtimes[release.language]
  const port = release.hostname === null ? null : runtime.defaultPort
  const start = release.start ?? runtime.start(release.main ?? '', host.configNames)
  const installed =
    places.dependencies && runtime.dependencies
      ? [{ source: places.dependencies, target: runtime.dependencies.at, readOnly: true }]
      : []
  return {
    ...common(release, host),
    network: tenantNetwork(release.ownerId, host.id).name,
    name: appContainerName(release),
    image: runtime.image(release.runtimeVersion),
    command: ['sh', '-c', start],
    env: { HOME: '/tmp', ...runtime.env, ...env, ...(port === null ? {} : { PORT: String(port) }) },
    labels: containerLabels(release, host, 'app'),
    memoryMb: release.ramMb,
    cpus: release.cpus,
    pidsLimit: pidsFor(release.ramMb),
    binds: [{ source: places.files, target: '/app', readOnly: false }, ...installed],
    publish: port === null ? null : { port, address: release.hostAddress },
    tmpMb,
  }
}

/** The container in which `install` runs on the sources: as hardened as the application's, with more memory and no secrets. */
export function buildContainer(release: Release, source: string, install: string, host: HostTraits): ContainerSpec {
  return {
    ...common(release, host),
    network: buildNetwork(host.id).name,
    name: buildContainerName(release),
    image: runtimes[release.language].buildImage(release.runtimeVersion),
    command: ['sh', '-c', install],
    env: { HOME: '/tmp', CI: 'true', ...trustVariables(release.language, host.buildProxy, host.caBundle !== null) },
    labels: containerLabels(release, host, 'build'),
    // Not what the release is to have: no plan was compared with that yet.
    memoryMb: Math.max(build.memoryMb, release.reservedMb),
    cpus: build.cpus,
    pidsLimit: build.pidsLimit,
    binds: [{ source, target: '/app', readOnly: false }, ...authorityBinds(release, host)],
    publish: null,
    tmpMb: build.tmpMb,
  }
}

function authorityBinds({ language }: Release, { caBundle }: HostTraits): ContainerSpec['binds'] {
  if (caBundle === null) return []
  const pem = { source: caBundle, target: trustFiles.pem, readOnly: true }
  return isOnJvm(language) ? [pem, { source: keyStoreOf(caBundle), target: trustFiles.jks, readOnly: true }] : [pem]
}

/** Labels a container with a fingerprint of its spec, so that a change is noticed at its next start. */
export function fingerprinted(spec: ContainerSpec): ContainerSpec {
  const fingerprint = createHash('sha256').update(JSON.stringify(spec)).digest('hex').slice(0, 16)
  return { ...spec, labels: { ...spec.labels, [labels.spec]: fingerprint } }
}

/** Publishes at a fixed port, or, when that is undefined, at one of the engine's choice. Its fingerprint stays: a container at another port is no other. */
export function publishedAt(spec: ContainerSpec, hostPort: number | undefined): ContainerSpec {
  if (!spec.publish) return spec
  const { port, address } = spec.publish
  return { ...spec, publish: { port, address, ...(hostPort !== undefined && { hostPort }) } }
}

function common(release: Release, host: HostTraits) {
  return {
    user: `${release.uid}:${release.uid}`,
    workingDir: '/app',
    stopTimeoutSeconds: stopGraceSeconds,
    runtime: host.runtime,
    share: release.ownerId,
  }
}

function containerLabels(release: Release, host: HostTraits, role: 'app' | 'build'): Record<string, string> {
  return {
    [labels.host]: host.id,
    [labels.app]: release.appId,
    [labels.owner]: release.ownerId,
    [labels.release]: String(release.number),
    [labels.role]: role,
  }
}
