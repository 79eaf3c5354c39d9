import type { Role } from '../../db/process-role.ts'
import type { Config } from '../../policy/config.ts'
import { settingsWithinSite } from '../../policy/installation/registrable-domains.ts'
import { columns } from '../terminal/terminal.ts'
import { bySupervisor, type Manner } from './manner.ts'

/** One result of the doctor. */
export interface Finding {
  name: string
  /** Its state, in words. */
  state: string
  /** What to do about it; left out when all is well. */
  remedy?: string | undefined
}

/** The findings in lines, each with what to do below it, and the number that need attention at the end. */
export function reportOf(findings: readonly Finding[]): string {
  const lines = columns(
    findings.map(({ name, state, remedy }) => [remedy ? '!' : ' ', name, state]),
    '',
  ).split('\n')
  const indent = ' '.repeat(Math.max(...findings.map(({ name }) => name.length)) + 5)
  const report = findings.flatMap(({ remedy }, n) => (remedy ? [lines[n]!, `${indent}-> ${remedy}`] : [lines[n]!]))
  const open = findings.filter(({ remedy }) => remedy).length
  const end =
    open === 0 ? 'Nothing needs to be done.' : `${open} of ${findings.length} need attention: the lines with "!".`
  return [...report, '', end].join('\n')
}

/** The findings for scripts, which rely on exactly these keys. */
export function findingsView(findings: readonly Finding[]) {
  const view = findings.map(({ name, state, remedy = null }) => ({ name, state, remedy }))
  return { ok: view.every(({ remedy }) => remedy === null), findings: view }
}

const ownProcesses = ['proxy', 'api', 'worker', 'host']

/** Which of the supervised processes are running. */
export function processFinding(
  living: readonly string[],
  external: { postgres: boolean; temporal: boolean },
  supervisor: boolean,
  stopped: readonly { name: string; pid: number }[] = [],
  { analytics = true, toyModel = false }: { analytics?: boolean; toyModel?: boolean } = {},
): Finding {
  const wanted = [
    ...(external.postgres ? [] : ['postgres']),
    ...(external.temporal ? [] : ['temporal']),
    ...ownProcesses,
    ...(analytics ? ['analytics'] : []),
    ...(toyModel ? ['toy-model'] : []),
  ]
  const missing = wanted.filter(name => !living.includes(name))
  const state = `running: ${living.join(', ') || 'none'}`
  if (!supervisor)
    return {
      name: 'processes',
      state: `${state}; not running: supervisor`,
      remedy: `start Berth: ${bySupervisor.start}`,
    }
  if (stopped.length > 0)
    return {
      name: 'processes',
      state: `${stopped.map(({ name, pid }) => `${name} (${pid})`).join(', ')} STOPPED by a signal`,
      remedy: `continue: kill -CONT ${stopped.map(({ pid }) => pid).join(' ')}`,
    }
  if (missing.length === 0) return { name: 'processes', state }
  return {
    name: 'processes',
    state: `${state}; not running: ${missing.join(', ')}`,
    remedy: `wait some seconds for the restart; if it stays down: ${missing.map(bySupervisor.logs).join(', ')}`,
  }
}

/**
 * Whether a part listens at all its addresses. `part` is the process or container behind it; of the silent addresses, `elsewhere` are
 * on other machines, where nothing can be started from here. `setting` is the one that names a part that Berth does not start.
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
      remedy: `start it there: it is set with ${setting}, so Berth does not start it`,
    }
  const here = silent.some(address => !elsewhere.includes(address))
  const remedy = [
    ...(elsewhere.length > 0 ? [`check ${elsewhere.join(', ')}`] : []),
    ...(here ? [`${manner.start}; if that does not help: ${manner.logs(part)}`] : []),
  ].join('; ')
  return { name, state: `NOTHING ANSWERS at ${silent.join(', ')}`, remedy }
}

const lowDiskGb = 5

/** Free space in the data folder, in bytes; null when the folder is missing. */
export function diskFinding(folder: string, freeBytes: number | null): Finding {
  if (freeBytes === null)
    return { name: 'disk', state: `${folder} is missing`, remedy: 'set BERTH_DATA to the data folder' }
  const freeGb = freeBytes / 1e9
  const state = `${freeGb.toFixed(1)} GB free at ${folder}`
  if (freeGb >= lowDiskGb) return { name: 'disk', state }
  return {
    name: 'disk',
    state: `${state} - LOW`,
    remedy: 'free space, or move the data folder: databases and deploys stop when it is full',
  }
}

/** Whether customers' pages belong to another site than the API. */
export function nameFinding(config: Pick<Config, 'appsDomain' | 'urls'>): Finding {
  const name = 'names'
  const within = settingsWithinSite(config)
  if (within.length === 0) return { name, state: 'applications and files belong to another site than the API' }
  return {
    name,
    state: `${within.join(', ')}: same registrable domain as BASE_URL`,
    remedy: 'if strangers have accounts, use a separate domain for them: docs/installation.md, "Names"',
  }
}

/** What the processes' login may do in the database, beyond changing rows. */
export function loginFinding({ name, superuser, owner }: Role): Finding {
  if (!superuser && !owner) return { name: 'database login', state: `${name}: changes rows only` }
  return {
    name: 'database login',
    state: superuser
      ? `${name} IS A SUPERUSER: an attacker in one process controls the whole server`
      : `${name} OWNS THE SCHEMA: an attacker in one process can change and drop every table of Berth`,
    remedy: 'use an ordinary login in DATABASE_URL, and this one in DATABASE_OWNER_URL',
  }
}

/** Mail that waits, and mail that failed. */
export function mailFinding(way: string, { queued, failed }: { queued: number; failed: number }): Finding {
  const state = `${way}; ${queued} waiting, ${failed} failed`
  return {
    name: 'mail',
    state,
    remedy: failed ? 'berth mail list gives the reasons, berth mail retry <id> tries again' : undefined,
  }
}

/** Protections of a host as it last reported them; those of a silent host are out of date. */
export function protectionFindings(
  host: { reachable: boolean; protections: Record<string, string> } | undefined,
  manner: Manner,
): Finding[] {
  if (!host)
    return [
      {
        name: 'container host',
        state: 'has not reported yet',
        remedy: `the host process does not work: ${manner.logs('host')}`,
      },
    ]
  return [
    host.reachable
      ? { name: 'container host', state: 'answers' }
      : {
          name: 'container host',
          state: 'is silent; the states below are the last it reported',
          remedy: `${manner.start}; then: ${manner.logs('host')}`,
        },
    ...Object.entries(host.protections).map(([name, state]) => ({
      name: `Protection ${name}`,
      state,
      remedy: remedyOf(name, state, manner),
    })),
  ]
}

/** The remedy by what is wrong with a disk (activities/volumes/port.ts). */
function diskRemedy(state: string, log: string): string {
  const remedies = [
    /\blost\b/.test(state) && 'lost: reattach the disk to its host, or have the owner restore a snapshot',
    /read-only/.test(state) && 'read-only: free space or repair the underlying disk, then restart the application',
    /not mounted/.test(state) && `not mounted: start the application; if that fails: ${log}`,
  ]
  return remedies.filter(Boolean).join('; ')
}

/** The remedies for the states that hosts report (`workers/host/host-parts.ts`, and `firewall-watch.ts` and `disk-watch.ts` next to it). */
function remedyOf(name: string, state: string, manner: Manner): string | undefined {
  if (/does not run as root/.test(state)) return 'if strangers have accounts, run Berth as root'
  if (/the setting \w+ is off/.test(state)) return 'if strangers have accounts, remove that setting and restart'
  if (!/^(off|BROKEN|checked, not enforced)/.test(state)) return undefined
  const log = manner.logs('host')
  if (name === 'quota')
    return `load the kernel module loop (modprobe loop) and install mkfs.ext4, then: ${manner.restart('host')}; ${log}`
  if (name === 'disks') return diskRemedy(state, log)
  if (name === 'bandwidth')
    return `install iproute2 and load the kernel module sch_tbf (modprobe sch_tbf), then: ${manner.restart('host')}; ${log}`
  if (name !== 'firewall') return `check the log of the host: ${log}`
  const needed = '`iptables -S` must work as root: install iptables'
  // The host retries a firewall that has worked once; one that was missing at its start it tries only at the next.
  return state.startsWith('BROKEN')
    ? `${needed}, or fix the reported error; the host tries again every 10 s: ${log}`
    : `${needed}, then: ${manner.restart('host')}; ${log}`
}
