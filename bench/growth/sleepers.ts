import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { comesTrue } from '../../test/kit/comes-true.ts'

const root = '/sys/fs/cgroup'
const versionOne = existsSync(`${root}/memory`)
/** What a host reads of a container, and the folders that hold it. */
const folders = (versionOne ? ['memory', 'cpuacct', 'blkio'] : ['']).map(
  name => `${root}/${name}/berth-bench-${process.pid}`,
)

/** Subshells that wait for the end of their input, which comes with the end of this process. Prints the id of each. */
const script = 'n=0; while [ $n -lt "$1" ]; do { read _; } <&3 & echo $!; n=$((n + 1)); done; read _ <&3'

export interface Sleepers {
  /** The id of the first process of a container. */
  pids: ReadonlyMap<string, number>
  end(): Promise<void>
}

/** One process that sleeps in a control group of its own for each container, so that a host reads real counters. Needs root. */
export async function startSleepers(containers: readonly string[]): Promise<Sleepers> {
  if (!versionOne) allowControllers(root)
  for (const folder of folders) {
    mkdirSync(folder)
    if (!versionOne) allowControllers(folder)
  }
  const shell = startProcess('sh', ['-c', script, 'sh', String(containers.length)], {
    env: systemEnvironment,
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  const ended = once(shell, 'exit')
  const pids = new Map<string, number>()
  for await (const line of createInterface({ input: shell.stdout! })) {
    const id = containers[pids.size]!
    for (const folder of folders) {
      mkdirSync(`${folder}/${id}`)
      writeFileSync(`${folder}/${id}/cgroup.procs`, line)
    }
    pids.set(id, Number(line))
    if (pids.size === containers.length) break
  }
  return {
    pids,
    async end() {
      ;(shell.stdio[3] as NodeJS.WritableStream).end()
      await ended
      await comesTrue(() => folders.every(removed))
    },
  }
}

function allowControllers(folder: string): void {
  writeFileSync(`${folder}/cgroup.subtree_control`, '+cpu +memory +io')
}

/** Whether all groups of the folder are removed; one whose process still ends cannot be removed yet. */
function removed(folder: string): boolean {
  try {
    if (!existsSync(folder)) return true
    for (const { name } of readdirSync(folder, { withFileTypes: true }).filter(entry => entry.isDirectory()))
      rmdirSync(`${folder}/${name}`)
    rmdirSync(folder)
    return true
  } catch {
    return false
  }
}
