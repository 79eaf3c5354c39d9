import { thisMachine } from '../../lib/machine.ts'
import type { Installation } from '../installation/installation.ts'

/** How an installation was started, and so how its parts are started and read about. */
export interface Manner {
  start: string
  /** Starts one part anew. */
  anew(part: string): string
  logs(part: string): string
}

/** One that `./berth up` has started. */
export const bySupervisor: Manner = {
  start: 'berth up -d',
  anew: () => 'berth down, berth up -d',
  logs: part => `berth logs ${part}`,
}

/** One that docker-compose.yml has started. */
export const byCompose: Manner = {
  start: 'docker compose up --detach',
  anew: part => `docker compose restart ${part}`,
  logs: part => `docker compose logs --tail 50 ${part}`,
}

/** A further container host: everything else of the platform is on other machines, and must not be started beside it. */
export const hostAlone: Manner = { ...byCompose, start: 'docker compose up --detach --no-deps host' }

/** The manner in which this installation was started. */
export function mannerOf(installation: Pick<Installation, 'inContainers' | 'config'>): Manner {
  if (!installation.inContainers) return bySupervisor
  return isFurtherHost(installation) ? hostAlone : byCompose
}

/** True for a machine that runs `host` and nothing else of the platform: only there the proxy comes from another machine. */
export const isFurtherHost = ({ config }: Pick<Installation, 'config'>): boolean => config.host.address !== '127.0.0.1'

/** Whether something at `host:port` is to be looked for on another machine; a name other than localhost counts as one. */
export function isElsewhere(address: string): boolean {
  if (!URL.canParse(`tcp://${address}`)) return false // a socket in the file system has no host
  const host = new URL(`tcp://${address}`).hostname.replace(/^\[|\]$/g, '')
  return host !== 'localhost' && !thisMachine().owns(host)
}
