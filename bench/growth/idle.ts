import type { ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { unusedPort } from '../../cli/installation/ports.ts'
import { temporalProcess } from '../../cli/services/temporal.ts'
import { heapFlags } from '../../workers/supervisor/heap.ts'
import type { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { threadPool } from '../../workers/supervisor/thread-pool.ts'
import { startApi, startProgram } from '../kit/programs.ts'
import { hostId, type Installation, masterKey } from './installation.ts'

/** What an installation takes of one core while nobody asks anything of it. */
export interface Idle {
  name: string
  applications: number
  /** Shares of a core. */
  processes: Record<string, number>
  /** Of our processes and the proxy. */
  cores: number
  /** Of Postgres and Temporal. */
  beside: number
}

/**
 * From the start of the processes until all that they do once is over: the first looks, and the first samples of metrics, of which eight
 * at a time take 0.2 s each.
 */
const settleSeconds = (applications: number): number => 60 + (applications / 8) * 0.2

/** One installation after the other, all their processes at work on an engine that is made up. */
export async function idleCosts(
  supervisor: Supervisor,
  installations: readonly Installation[],
  seconds: number,
): Promise<Idle[]> {
  const port = await unusedPort()
  await supervisor.start(await temporalProcess({ folder: null, port, uiPort: null }, () => {}))
  const found: Idle[] = []
  for (const installation of installations) found.push(await idleCost(installation, `127.0.0.1:${port}`, seconds))
  return found
}

async function idleCost(at: Installation, temporal: string, seconds: number): Promise<Idle> {
  const { name, databaseUrl, folder, engineUrl, proxy } = at
  const settings = {
    DATABASE_URL: databaseUrl,
    BERTH_MASTER_KEY: masterKey,
    BERTH_DATA: `${folder}/data`,
    TEMPORAL_ADDRESS: temporal,
    QUEUE_PREFIX: `${name}/`,
    BLOB_UPKEEP: 'off', // its schedules are each one workflow in minutes or hours
    EDGE_CONTROL_SOCKET: proxy.config.edge.controlSocket,
    DOCKER_HOST: engineUrl,
    HOST_NAME: hostId,
    HOST_QUOTA: 'off',
    HOST_FIREWALL: 'off',
    WARM_IMAGES: 'none',
    HOST_BANDWIDTH_MBIT: '0', // containers that are made up have no network to shape, and would be asked after in every round
    LOG_LEVEL: 'warn',
  }
  // The API that was measured waits for a Temporal that is not there.
  at.api.child.kill('SIGKILL')
  const env = { ...threadPool, ...settings }
  const worker = await startProcess('worker', env)
  const host = await startProcess('host', env)
  const { child: api } = await startApi({ databaseUrl, masterKey, folder, settings }, threadPool, heapFlags)
  const roots = { api, worker, host }
  try {
    await sleep(settleSeconds(at.sizes.apps) * 1000)
    const before = cpuSeconds(roots)
    await sleep(seconds * 1000)
    const after = cpuSeconds(roots)
    const shares = Object.entries(after).map(([process, spent]) => [
      process,
      (spent - (before[process] ?? 0)) / seconds,
    ])
    const processes: Record<string, number> = Object.fromEntries(shares)
    const { postgres = 0, temporal: workflows = 0, ...ours } = processes
    const cores = Object.values(ours).reduce((sum, share) => sum + share, 0)
    return { name, applications: at.sizes.apps, processes, cores, beside: postgres + workflows }
  } finally {
    for (const child of Object.values(roots)) child.kill('SIGKILL')
  }
}

async function startProcess(name: 'worker' | 'host', env: Record<string, string>): Promise<ChildProcess> {
  return (await startProgram(`../../workers/${name}.ts`, [], env, name === 'host' ? [] : heapFlags)).child
}

/** Seconds of processor time so far, of each process with its children, and of the programs that we have started. */
function cpuSeconds(roots: Record<string, ChildProcess>): Record<string, number> {
  const all = new Map<number, Stat>()
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    const stat = statOf(pid)
    if (stat) all.set(pid, stat)
  }
  const owner = (pid: number): string | undefined => {
    let program: string | undefined
    for (let at = all.get(pid), id = pid; at; id = at.parent, at = all.get(at.parent)) {
      const root = Object.keys(roots).find(name => roots[name]!.pid === id)
      if (root) return root
      program = programs.find(name => at!.command.startsWith(name)) ?? program
      if (at.parent === process.pid) return program
    }
    return undefined
  }
  const spent: Record<string, number> = {}
  for (const [pid, { seconds }] of all) {
    const name = owner(pid)
    if (name) spent[name] = (spent[name] ?? 0) + seconds
  }
  return spent
}

const programs = ['nginx', 'postgres', 'temporal']

interface Stat {
  command: string
  parent: number
  seconds: number
}

function statOf(pid: number): Stat | undefined {
  try {
    const [, command, rest] = /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!
    const fields = rest!.split(' ')
    // With the time of those that it has waited for: sessions of Postgres come and go.
    const spent = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0)
    return { command: command!, parent: Number(fields[1]), seconds: spent / 100 }
  } catch {
    return undefined // it has ended
  }
}
