import type { ContainerExit, Release, StartedContainer } from '../../activities/releases/release.ts'
import type { Standing } from '../contracts/host-troubles.ts'
import { portOf, portStep } from './ports.ts'

type Running = Pick<StartedContainer, 'containerId' | 'hostPort' | 'hostAddress' | 'startedAt'>

/** A container that was started at least once; `exit` is null while it runs. */
interface Container {
  started: Running
  exit: ContainerExit | null
}

const stopped = { code: 143, oom: false }

/** State of one application at a scripted host. */
export class ScriptedApp {
  readonly #containers = new Map<number, Container>()
  /** Number of earlier ports of each release. */
  readonly #ports = new Map<number, number>()
  #boots = 0
  disk = false
  busy = 0
  /** Releases whose files were placed, the newest last. */
  #placed: number[] = []
  /** The newest one whose files are settled. */
  #settled = 0

  runs(release: number): boolean {
    return this.#containers.get(release)?.exit === null
  }

  /** Creates or adopts the container of a release and starts it. Two versions of a program without a port never run concurrently. */
  start({ appId, number, hostname, hostAddress }: Release): Running {
    if (!hostname) for (const other of this.#containers.keys()) if (other !== number) this.end(other)
    const present = this.again(number)
    if (present) return present
    const hostPort = portOf(appId, number, this.#ports.get(number))
    const place = hostname ? { hostPort, hostAddress } : { hostPort: null, hostAddress: null }
    const started = { containerId: `c${number}`, ...place, startedAt: new Date().toISOString() }
    this.#containers.set(number, { started, exit: null })
    return started
  }

  /** Starts the container of a release if it does not run; null without one. */
  again(release: number): Running | null {
    const container = this.#containers.get(release)
    if (!container) return null
    if (container.exit) container.started = { ...container.started, startedAt: new Date().toISOString() }
    container.exit = null
    return container.started
  }

  /** Stops the container of a release; a stopped or missing one stays as it is. */
  end(release: number, how: { code: number; oom: boolean } = stopped): void {
    const container = this.#containers.get(release)
    if (container?.exit !== null) return
    container.exit = { containerId: container.started.containerId, ...how, at: new Date().toISOString() }
  }

  /** Exit of a release's container. */
  exitOf(release: number): ContainerExit {
    const noExit = { containerId: null, code: null, oom: false, at: new Date().toISOString() }
    return this.#containers.get(release)?.exit ?? noExit
  }

  has(release: number): boolean {
    return this.#containers.has(release)
  }

  /** The current boot of the application's host. */
  get bootId(): string {
    return this.#boots === 0 ? 'boot' : `boot/${this.#boots}`
  }

  /** The engine restarts: it ends every container, and publishes them on other ports from their next start on. */
  takeDown(): void {
    this.#boots++
    for (const [release, { started }] of this.#containers) {
      this.end(release, { code: 137, oom: false })
      this.#ports.set(release, 1 + (this.#ports.get(release) ?? 0))
      if (started.hostPort !== null) started.hostPort += portStep
    }
  }

  removeContainer(release: number): void {
    if (this.#containers.delete(release)) this.#ports.set(release, 1 + (this.#ports.get(release) ?? 0))
  }

  removeContainers(): void {
    for (const release of this.#containers.keys()) this.removeContainer(release)
  }

  /** The release whose files are in the application's folder; null without any. */
  get files(): number | null {
    return this.#placed.at(-1) ?? null
  }

  place(release: number): void {
    if (this.files !== release) this.#placed.push(release)
  }

  takeBack(release: number): void {
    if (release > this.#settled) this.#placed = this.#placed.filter(placed => placed !== release)
  }

  settle(release: number): void {
    if (this.#placed.includes(release)) this.#settled = release
  }

  removeDisk(): void {
    this.disk = false
    this.#placed = []
  }

  standing(): Standing {
    const { disk, busy, files } = this
    const containers = Object.fromEntries([...this.#containers].map(([number, { exit }]) => [number, exit === null]))
    return { containers, files, disk, busy }
  }
}
