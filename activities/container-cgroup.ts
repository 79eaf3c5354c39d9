import { readFile } from 'node:fs/promises'
import type { EngineReading } from './container-stats.ts'

/**
 * A reading of a container straight from the kernel, by the id of its first process; rejects when the kernel shows it
 * elsewhere (another machine, another mount). The engine itself answers only at its next tick, up to a second later.
 * With the id of the container also when the process is not, or no longer, one of its own.
 */
export async function kernelReading(pid: number, containerId?: string): Promise<EngineReading> {
  const listed = await readFile(`/proc/${pid}/cgroup`, 'utf8')
  if (containerId && !listed.includes(containerId)) throw new Error(`Process ${pid} is not of ${containerId}.`)
  const groups = controllers(listed)
  const unified = groups.get('')
  const counters = groups.has('memory') ? await versionOne(groups) : await versionTwo(`/sys/fs/cgroup${unified}`)
  const networks = interfaces(await readFile(`/proc/${pid}/net/dev`, 'utf8'))
  return { read: new Date().toISOString(), ...counters, networks }
}

type Counters = Pick<EngineReading, 'cpu_stats' | 'memory_stats' | 'blkio_stats'>

async function versionOne(groups: Map<string, string>): Promise<Counters> {
  const file = (controller: string, name: string) =>
    readFile(`/sys/fs/cgroup/${controller}${groups.get(controller)}/${name}`, 'utf8')
  const [busy, usage, limit, stat, io] = await Promise.all([
    file('cpuacct', 'cpuacct.usage'),
    file('memory', 'memory.usage_in_bytes'),
    file('memory', 'memory.limit_in_bytes'),
    file('memory', 'memory.stat'),
    file('blkio', 'blkio.throttle.io_service_bytes_recursive').catch(() => ''),
  ])
  const blocks = [...io.matchAll(/^\d+:\d+ (\w+) (\d+)$/gm)].map(([, op, value]) => ({ op: op!, value: Number(value) }))
  return {
    cpu_stats: { cpu_usage: { total_usage: Number(busy) } },
    memory_stats: { usage: Number(usage), limit: Number(limit), stats: fields(stat) },
    blkio_stats: { io_service_bytes_recursive: blocks },
  }
}

async function versionTwo(folder: string): Promise<Counters> {
  const file = (name: string) => readFile(`${folder}/${name}`, 'utf8')
  const [cpu, usage, limit, stat, io] = await Promise.all([
    file('cpu.stat'),
    file('memory.current'),
    file('memory.max'),
    file('memory.stat'),
    file('io.stat').catch(() => ''),
  ])
  const blocks = [...io.matchAll(/\b([rw])bytes=(\d+)/g)].map(([, way, value]) => ({
    op: way === 'r' ? 'read' : 'write',
    value: Number(value),
  }))
  return {
    cpu_stats: { cpu_usage: { total_usage: (fields(cpu).usage_usec ?? 0) * 1000 } },
    memory_stats: { usage: Number(usage), limit: Number(limit), stats: fields(stat) },
    blkio_stats: { io_service_bytes_recursive: blocks },
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

function fields(text: string): Record<string, number> {
  return Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map(line => line.split(' '))
      .map(([name, value]) => [name, Number(value)]),
  )
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
