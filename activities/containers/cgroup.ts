import { readFileSync } from 'node:fs'
import { startTicks } from '../../lib/process-stat.ts'
import type { EngineReading } from './stats.ts'

/** One reading of the kernel's counters of a container; throws once its first process has ended. */
export type KernelReader = () => EngineReading

/**
 * Reads a container's counters directly from the kernel; the engine itself answers only at its next tick, up to a second later. Throws
 * when the process with this id is not of the container: a host process that runs in a container sees other ids.
 * The files are read synchronously: they are in memory, and a hop to the thread pool costs more than each read.
 */
export function kernelReader(pid: number, containerId: string): KernelReader {
  const startedAtTicks = startTicks(pid)
  const cgroupLines = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
  if (!cgroupLines.includes(containerId)) throw new Error(`Process ${pid} is not of ${containerId}.`)
  const groups = controllers(cgroupLines)
  const counters = groups.has('memory') ? versionOne(groups) : versionTwo(`/sys/fs/cgroup${groups.get('')}`)
  return () => {
    const values = { ...counters(), networks: interfaces(readFileSync(`/proc/${pid}/net/dev`, 'utf8')) }
    // Checked last: the kernel reuses the ids of ended processes.
    if (startedAtTicks === null || startTicks(pid) !== startedAtTicks) throw new Error(`Process ${pid} has ended.`)
    return { read: new Date().toISOString(), ...values }
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
    memory_stats: { usage: Number(text(usage)), limit, stats: pages(text(stat)) },
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
      stats: pages(text(`${folder}/memory.stat`)),
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

/** Path by controller; the key of version 2 is empty. */
function controllers(text: string): Map<string, string> {
  const paths = new Map<string, string>()
  for (const line of text.trim().split('\n')) {
    const [, names = '', path = ''] = line.match(/^\d+:([^:]*):(.*)$/) ?? []
    for (const name of names.split(',')) paths.set(name, path)
  }
  return paths
}

/** Parses only the counters that are used, of about forty: this is read of each container every few seconds. */
const pages = (stat: string) =>
  Object.fromEntries(['inactive_file', 'active_anon', 'inactive_anon'].map(name => [name, field(name, stat)]))

/** Prefers the total that includes child groups, where there is one (version 1). */
function field(name: string, lines: string): number {
  return numberAfter(`total_${name} `, lines) ?? numberAfter(`${name} `, lines) ?? 0
}

/** The number after this prefix at the start of a line. Without a regular expression, because thousands of containers are read every few seconds. */
function numberAfter(prefix: string, lines: string): number | undefined {
  const at = `\n${lines}`.indexOf(`\n${prefix}`)
  return at === -1 ? undefined : Number.parseInt(lines.slice(at + prefix.length), 10)
}

/** Received bytes are the first number of a line, sent bytes the ninth. */
function interfaces(text: string): NonNullable<EngineReading['networks']> {
  const lines = [...text.matchAll(/^\s*([\w.-]+):\s*(\d+)(?:\s+\d+){7}\s+(\d+)/gm)]
  return Object.fromEntries(
    lines
      .filter(([, name]) => name !== 'lo')
      .map(([, name, rx, tx]) => [name, { rx_bytes: Number(rx), tx_bytes: Number(tx) }]),
  )
}
