import { readFileSync } from 'node:fs'
import { startTicks } from '../../lib/process-stat.ts'
import type { EngineReading } from './stats.ts'

/** One reading of the kernel's counters of a container; throws once its first process has ended. */
export type KernelReader = () => EngineReading

/**
 * Reads a container's counters straight from the kernel; the engine itself answers only at its next tick, up to a second later. Throws
 * when the process with this id is not of the container: the kernel shows others to a host process in a container of its own.
 * The files are read at once and not by the thread pool: they are in memory, and a hop to a thread costs more than each of them.
 */
export function kernelReader(pid: number, containerId: string): KernelReader {
  const began = startTicks(pid)
  const listed = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
  if (!listed.includes(containerId)) throw new Error(`Process ${pid} is not of ${containerId}.`)
  const groups = controllers(listed)
  const counters = groups.has('memory') ? versionOne(groups) : versionTwo(`/sys/fs/cgroup${groups.get('')}`)
  return () => {
    const found = { ...counters(), networks: interfaces(readFileSync(`/proc/${pid}/net/dev`, 'utf8')) }
    // Asked last: the id of a process that has ended is given to another one.
    if (began === null || startTicks(pid) !== began) throw new Error(`Process ${pid} has ended.`)
    return { read: new Date().toISOString(), ...found }
  }
}

type Counters = Pick<EngineReading, 'cpu_stats' | 'memory_stats' | 'blkio_stats'>

function versionOne(groups: Map<string, string>): () => Counters {
  const file = (controller: string, name: string) => `/sys/fs/cgroup/${controller}${groups.get(controller)}/${name}`
  const busy = file('cpuacct', 'cpuacct.usage')
  const usage = file('memory', 'memory.usage_in_bytes')
  const limit = Number(text(file('memory', 'memory.limit_in_bytes'))) // of a container it never changes
  const stat = file('memory', 'memory.stat')
  const io = file('blkio', 'blkio.throttle.io_service_bytes_recursive')
  return () => ({
    cpu_stats: { cpu_usage: { total_usage: Number(text(busy)) } },
    memory_stats: { usage: Number(text(usage)), limit, stats: cache(text(stat)) },
    blkio_stats: {
      io_service_bytes_recursive: [...textIfAny(io).matchAll(/^\d+:\d+ (\w+) (\d+)$/gm)].map(([, op, value]) => ({
        op: op!,
        value: Number(value),
      })),
    },
  })
}

function versionTwo(folder: string): () => Counters {
  const limit = Number(text(`${folder}/memory.max`))
  return () => ({
    cpu_stats: { cpu_usage: { total_usage: field('usage_usec', text(`${folder}/cpu.stat`)) * 1000 } },
    memory_stats: {
      usage: Number(text(`${folder}/memory.current`)),
      limit,
      stats: cache(text(`${folder}/memory.stat`)),
    },
    blkio_stats: {
      io_service_bytes_recursive: [...textIfAny(`${folder}/io.stat`).matchAll(/\b([rw])bytes=(\d+)/g)].map(
        ([, way, value]) => ({ op: way === 'r' ? 'read' : 'write', value: Number(value) }),
      ),
    },
  })
}

const text = (path: string): string => readFileSync(path, 'utf8')

/** Not every kernel counts what goes to disks. */
function textIfAny(path: string): string {
  try {
    return text(path)
  } catch {
    return ''
  }
}

/** Path by controller; the one of version 2 stands under the empty name. */
function controllers(text: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const line of text.trim().split('\n')) {
    const [, names = '', path = ''] = line.match(/^\d+:([^:]*):(.*)$/) ?? []
    for (const name of names.split(',')) found.set(name, path)
  }
  return found
}

/** Of some forty counters the one that is asked for: this is read of each container every few seconds. */
const cache = (stat: string) => ({ inactive_file: field('inactive_file', stat) })

/** With its groups below it, where both are told (version 1). */
function field(name: string, listed: string): number {
  return after(`total_${name} `, listed) ?? after(`${name} `, listed) ?? 0
}

/** The number after these words at the start of a line. No expression is compiled: thousands of containers are read every few seconds. */
function after(words: string, listed: string): number | undefined {
  const at = `\n${listed}`.indexOf(`\n${words}`)
  return at === -1 ? undefined : Number.parseInt(listed.slice(at + words.length), 10)
}

/** Received bytes are the first number of a line, sent ones the ninth. */
function interfaces(text: string): NonNullable<EngineReading['networks']> {
  const lines = [...text.matchAll(/^\s*([\w.-]+):\s*(\d+)(?:\s+\d+){7}\s+(\d+)/gm)]
  return Object.fromEntries(
    lines
      .filter(([, name]) => name !== 'lo')
      .map(([, name, rx, tx]) => [name, { rx_bytes: Number(rx), tx_bytes: Number(tx) }]),
  )
}
