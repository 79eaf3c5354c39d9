import { thisMachine } from '../../lib/machine.ts'
import type { Installation } from '../installation/installation.ts'

/** The commands that start parts of an installation and show their logs, by how it was started. */
export interface Manner {
  start: string
  /** Restarts one part. */
  restart(part: string): string
  logs(part: string): string
}

/** An installation started by `./berth up`. */
export const bySupervisor: Manner = {
  start: 'berth up -d',
  restart: () => 'berth down, berth up -d',
  logs: part => `berth logs ${part}`,
}

/** An installation started by docker-compose.yml. */
export const byCompose: Manner = {
  start: 'docker compose up --detach',
  restart: part => `docker compose restart ${part}`,
  logs: part => `docker compose logs --tail 50 ${part}`,
}

/** A further container host: the rest of the platform is on other machines, and must not be started alongside it. */
export const hostAlone: Manner = { ...byCompose, start: 'docker compose up --detach --no-deps host' }

/** How this installation was started. */
export function mannerOf(installation: Pick<Installation, 'inContainers' | 'config'>): Manner {
  if (!installation.inContainers) return bySupervisor
  return isFurtherHost(installation) ? hostAlone : byCompose
}

/** True for a machine that runs `host` and nothing else of the platform: only there the proxy comes from another machine. */
export const isFurtherHost = ({ config }: Pick<Installation, 'config'>): boolean => config.host.address !== '127.0.0.1'

/** Whether `host:port` is on another machine; a name other than localhost counts as one. */
export function isElsewhere(address: string): boolean {
  if (!URL.canParse(`tcp://${address}`)) return false // a socket in the file system has no host
  const host = new URL(`tcp://${address}`).hostname.replace(/^\[|\]$/g, '')
  return host !== 'localhost' && !thisMachine().owns(host)
}
