import type { ContainerStats } from './port.ts'

/** The fields of an engine's reading that we use; cgroup v1 and v2 differ in the names of the memory counters. */
export interface EngineReading {
  read: string
  cpu_stats: { cpu_usage: { total_usage: number } }
  memory_stats?: { usage?: number; limit?: number; stats?: Record<string, number> }
  networks?: Record<string, { rx_bytes: number; tx_bytes: number }>
  blkio_stats?: { io_service_bytes_recursive?: { op: string; value: number }[] | null }
}

/** CPU from two readings in percent of one core; memory without the page cache that the kernel can reclaim immediately. */
export function statsBetween(before: EngineReading, now: EngineReading): ContainerStats {
  const nanoseconds = (Date.parse(now.read) - Date.parse(before.read)) * 1e6
  const busy = now.cpu_stats.cpu_usage.total_usage - before.cpu_stats.cpu_usage.total_usage
  const networks = Object.values(now.networks ?? {})
  return {
    cpuPercent: nanoseconds > 0 && busy > 0 ? (busy / nanoseconds) * 100 : 0,
    memoryBytes: memoryUsed(now),
    memoryLimitBytes: now.memory_stats?.limit ?? 0,
    networkIn: sum(networks.map(network => network.rx_bytes)),
    networkOut: sum(networks.map(network => network.tx_bytes)),
    blockRead: blockBytes(now, 'read'),
    blockWrite: blockBytes(now, 'write'),
  }
}

function memoryUsed({ memory_stats: memory }: EngineReading): number {
  const cache = memory?.stats?.total_inactive_file ?? memory?.stats?.inactive_file ?? 0
  const usage = memory?.usage ?? 0
  return cache < usage ? usage - cache : usage
}

/**
 * Bytes that processes cannot give back: what is resident and what they share in memory, without any page cache. Both are in the lists of
 * the kernel that it names after anonymous memory.
 */
export function containerResidentBytes(reading: EngineReading): number {
  const stats = reading.memory_stats?.stats ?? {}
  const lists = ['active_anon', 'inactive_anon'].map(name => stats[`total_${name}`] ?? stats[name])
  const numbers = lists.filter(bytes => bytes !== undefined)
  return numbers.length === 0 ? memoryUsed(reading) : sum(numbers)
}

function blockBytes(reading: EngineReading, operation: string): number {
  const entries = reading.blkio_stats?.io_service_bytes_recursive ?? []
  return sum(entries.filter(entry => entry.op.toLowerCase() === operation).map(entry => entry.value))
}

const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0)
