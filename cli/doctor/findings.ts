import type { Role } from '../../db/process-role.ts'
import type { Config } from '../../policy/config.ts'
import { settingsWithinSite } from '../../policy/installation/registrable-domains.ts'
import { columns } from '../terminal/terminal.ts'
import { bySupervisor, type Manner } from './manner.ts'

/** One thing that the doctor has looked at. */
export interface Finding {
  name: string
  /** How it stands, in words. */
  state: string
  /** What to do about it; left out when it is well. */
  remedy?: string | undefined
}

/** Docker asks for 28: before, other machines of the same network reach ports that containers publish on loopback. */
const safeEngine = 28
/** From here on its filter denies io_uring; in some builds before 23 also AF_VSOCK passed. */
const filteringEngine = 25

/** The engine by its version. `ioUring` is the kernel's `io_uring_disabled`; null where it has none. */
export function engineVersionFinding(version: string, address: string, ioUring: string | null): Finding {
  const finding = { name: 'docker engine', state: `${version} answers at ${address}` }
  const major = Number.parseInt(version, 10)
  if (major >= safeEngine) return finding
  const open = major < filteringEngine && (ioUring === null || ioUring === '0')
  const until = open
    ? '; until then deny programs io_uring, which its filter lets through: sysctl -w kernel.io_uring_disabled=1 (kernel 6.6 and newer)'
    : ''
  return {
    ...finding,
    remedy: `update it to 28 or newer: before, machines of the same network reach ports on loopback${until}`,
  }
}

/** The findings in lines, what to do beneath each, and how many need somebody at the end. */
export function reportOf(findings: readonly Finding[]): string {
  const lines = columns(
    findings.map(({ name, state, remedy }) => [remedy ? '!' : ' ', name, state]),
    '',
  ).split('\n')
  const indent = ' '.repeat(Math.max(...findings.map(({ name }) => name.length)) + 5)
  const told = findings.flatMap(({ remedy }, n) => (remedy ? [lines[n]!, `${indent}-> ${remedy}`] : [lines[n]!]))
  const open = findings.filter(({ remedy }) => remedy).length
  const end = open === 0 ? 'Nothing needs to be done.' : `${open} of ${findings.length} need you: the lines with "!".`
  return [...told, '', end].join('\n')
}

/** The findings for scripts, which rely on exactly these keys. */
export function findingsView(findings: readonly Finding[]) {
  const view = findings.map(({ name, state, remedy = null }) => ({ name, state, remedy }))
  return { ok: view.every(({ remedy }) => remedy === null), findings: view }
}

const ownProcesses = ['proxy', 'api', 'worker', 'host']

/** Which processes live of those that the supervisor should keep. */
export function processFinding(
  living: readonly string[],
  external: { postgres: boolean; temporal: boolean },
  supervisor: boolean,
  stopped: readonly { name: string; pid: number }[] = [],
): Finding {
  const wanted = [
    ...(external.postgres ? [] : ['postgres']),
    ...(external.temporal ? [] : ['temporal']),
    ...ownProcesses,
  ]
  const missing = wanted.filter(name => !living.includes(name))
  const state = living.length ? `${living.join(', ')} run` : 'none runs'
  if (!supervisor)
    return {
      name: 'processes',
      state: `${state}; the supervisor does not`,
      remedy: `start Berth: ${bySupervisor.start}`,
    }
  if (stopped.length > 0)
    return {
      name: 'processes',
      state: `${stopped.map(({ name, pid }) => `${name} (${pid})`).join(', ')} STOPPED by a signal: nothing of it goes on`,
      remedy: `let it go on: kill -CONT ${stopped.map(({ pid }) => pid).join(' ')}`,
    }
  if (missing.length === 0) return { name: 'processes', state }
  return {
    name: 'processes',
    state: `${state}; ${missing.join(', ')} ${missing.length === 1 ? 'does' : 'do'} not`,
    remedy: `wait some seconds, it is started again; if it stays away: ${missing.map(bySupervisor.logs).join(', ')}`,
  }
}

/**
 * Something that listens at each of its addresses, or does not. `part` is the process or container behind it; of those that are
 * silent, `elsewhere` are on other machines, where nothing can be started from here. `setting` names it where Berth has not started it.
 */
export function addressFinding(
  name: string,
  { addresses, silent, elsewhere }: Record<'addresses' | 'silent' | 'elsewhere', readonly string[]>,
  part: string,
  manner: Manner,
  setting?: string,
): Finding {
  if (silent.length === 0) return { name, state: `answers at ${addresses.join(', ')}` }
  if (setting)
    return {
      name,
      state: `NOTHING ANSWERS at ${silent.join(', ')}`,
      remedy: `start it there; the setting ${setting} names it, and Berth does not start it`,
    }
  const here = silent.some(address => !elsewhere.includes(address))
  const remedy = [
    ...(elsewhere.length > 0 ? [`see to ${elsewhere.join(', ')}`] : []),
    ...(here ? [`${manner.start}; if that does not help: ${manner.logs(part)}`] : []),
  ].join('; ')
  return { name, state: `NOTHING ANSWERS at ${silent.join(', ')}`, remedy }
}

const lowDiskGb = 5

/** Whether applications live on when their engine ends; null when it does not say. */
export function liveRestoreFinding(livesOn: boolean | null): Finding {
  const name = 'live-restore'
  if (livesOn) return { name, state: 'on: applications live on when the engine is started anew' }
  if (livesOn === null)
    return { name, state: 'UNKNOWN: the engine does not say', remedy: 'look again when it is less busy' }
  return {
    name,
    state: 'OFF: applications end with the engine, and are started again after it',
    remedy: 'write "live-restore": true into /etc/docker/daemon.json, then: sudo systemctl reload docker',
  }
}

/** Room in the data folder, in bytes; null when the folder is not there. */
export function diskFinding(folder: string, freeBytes: number | null): Finding {
  if (freeBytes === null)
    return { name: 'disk', state: `${folder} is not there`, remedy: 'name the data folder with BERTH_DATA' }
  const freeGb = freeBytes / 1e9
  const state = `${freeGb.toFixed(1)} GB free at ${folder}`
  if (freeGb >= lowDiskGb) return { name: 'disk', state }
  return {
    name: 'disk',
    state: `${state} - LOW`,
    remedy: 'make room, or move the data folder: databases and deploys stop when it is full',
  }
}

/** Whether pages of strangers are of another site than the API. */
export function nameFinding(config: Pick<Config, 'appsDomain' | 'urls'>): Finding {
  const name = 'names'
  const within = settingsWithinSite(config)
  if (within.length === 0) return { name, state: 'applications and files are of another site than the API' }
  return {
    name,
    state: `${within.join(', ')}: of one registrable domain with BASE_URL`,
    remedy: 'where strangers have accounts, give them a domain of their own: docs/installation.md, "Names"',
  }
}

/** What the processes may do to the database, beyond rows. */
export function loginFinding({ name, superuser, owner }: Role): Finding {
  if (!superuser && !owner) return { name: 'database login', state: `${name}: changes rows only` }
  const what = superuser ? 'IS A SUPERUSER' : 'OWNS THE SCHEMA'
  return {
    name: 'database login',
    state: `${name} ${what}: whoever gets into a process has the whole server's rights`,
    remedy: 'give DATABASE_URL a plain login and DATABASE_OWNER_URL this one',
  }
}

/** Mail that waits and mail that was given up. */
export function mailFinding(way: string, { queued, failed }: { queued: number; failed: number }): Finding {
  const state = `${way}; ${queued} waiting, ${failed} failed`
  return {
    name: 'mail',
    state,
    remedy: failed ? 'berth mail list tells why, berth mail retry <id> tries again' : undefined,
  }
}

/** Protections of a host as it has reported them; the silence of a host makes all of them old. */
export function protectionFindings(
  host: { reachable: boolean; protections: Record<string, string> } | undefined,
  manner: Manner,
): Finding[] {
  if (!host)
    return [
      {
        name: 'container host',
        state: 'has not reported yet',
        remedy: `the process host does not work: ${manner.logs('host')}`,
      },
    ]
  return [
    host.reachable
      ? { name: 'container host', state: 'answers' }
      : {
          name: 'container host',
          state: 'is silent; what follows is how it was last seen',
          remedy: `${manner.start}; then: ${manner.logs('host')}`,
        },
    ...Object.entries(host.protections).map(([name, state]) => ({
      name: `Protection ${name}`,
      state,
      remedy: remedyOf(name, state, manner),
    })),
  ]
}

/** By what a disk suffers from (activities/volumes/port.ts). */
function diskRemedy(state: string, log: string): string {
  const remedies = [
    /\blost\b/.test(state) && 'lost: bring the disk back to its host, or have its owner restore a snapshot',
    /read-only/.test(state) && 'read-only: make room or mend the disk below, then restart the application',
    /not mounted/.test(state) && `not mounted: start the application; if that fails: ${log}`,
  ]
  return remedies.filter(Boolean).join('; ')
}

/** The states that hosts write (`workers/host/host-parts.ts`, `firewall-watch.ts` and `disk-watch.ts` beside it), by what helps against them. */
function remedyOf(name: string, state: string, manner: Manner): string | undefined {
  if (/does not run as root/.test(state)) return 'run Berth as root where strangers have accounts'
  if (/the setting \w+ is off/.test(state)) return 'take that setting out where strangers have accounts, and start anew'
  if (!/^(off|BROKEN|checked, not enforced)/.test(state)) return undefined
  const log = manner.logs('host')
  if (name === 'quota')
    return `load the kernel module loop (modprobe loop) and see that mkfs.ext4 is there, then: ${manner.anew('host')}; ${log}`
  if (name === 'disks') return diskRemedy(state, log)
  if (name === 'bandwidth')
    return `install iproute2 and load the kernel module sch_tbf (modprobe sch_tbf), then: ${manner.anew('host')}; ${log}`
  if (name !== 'firewall') return `see the log of the host: ${log}`
  const needed = '`iptables -S` has to work as root: install iptables'
  // What has worked once is tried again; what was not there at the start is looked for at the next.
  return state.startsWith('BROKEN')
    ? `${needed}, or mend what it says; the host tries again every 10 s: ${log}`
    : `${needed}, then: ${manner.anew('host')}; ${log}`
}
