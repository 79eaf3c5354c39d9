import { MiB } from '../../lib/bytes.ts'

/** What is kept of a running application: one point for each 5 minutes of the last 24 hours, from a sample every 15 s (contract 4.14). */
export const metricRules = {
  /** Smaller applications have no metrics; their memory is watched all the same. */
  fromMemoryMb: 512,
  sampleSeconds: 15,
  pointSeconds: 300,
  keptHours: 24,
  mostPoints: 288,
} as const

/** One look at a container. Memory in bytes; network in bytes since the start of its run. */
export interface Sample {
  /** Which run of which container: another one counts from zero. */
  run: string
  startedAt: Date
  cpuPercent: number
  memoryBytes: number
  networkIn: number
  networkOut: number
}

/** CPU in percent of one core and memory in MB, averages; network in bytes of the interval. `at` is its beginning. */
export interface MetricPoint {
  appId: string
  at: Date
  cpu: number
  ram: number
  netIn: number
  netOut: number
}

/** What is known of an interval so far. Times in milliseconds. */
export interface Gathering {
  at: number
  samples: number
  cpu: number
  ram: number
  netIn: number
  netOut: number
  last: Sample
}

/** Beginning of the interval that a moment lies in, the same on every host. */
export const intervalOf = (now: number, pointSeconds: number): number => now - (now % (pointSeconds * 1000))

/** One sample more, taken in the interval that begins at `at`. */
export function gathered(before: Gathering | undefined, sample: Sample, at: number): Gathering {
  const sums = before?.at === at ? before : { samples: 0, cpu: 0, ram: 0, netIn: 0, netOut: 0 }
  const since = baseline(before?.last, sample, at)
  return {
    at,
    samples: sums.samples + 1,
    cpu: sums.cpu + sample.cpuPercent,
    ram: sums.ram + sample.memoryBytes / MiB,
    netIn: sums.netIn + sample.networkIn - since.networkIn,
    netOut: sums.netOut + sample.networkOut - since.networkOut,
    last: sample,
  }
}

/** What the counters of this run said when they were looked at last. Traffic from before the first look is not of this interval. */
function baseline(last: Sample | undefined, sample: Sample, at: number): Pick<Sample, 'networkIn' | 'networkOut'> {
  if (!last) return sample.startedAt.getTime() >= at ? untouched : sample
  const counts = last.run === sample.run && last.networkIn <= sample.networkIn && last.networkOut <= sample.networkOut
  return counts ? last : untouched
}

const untouched = { networkIn: 0, networkOut: 0 }

export function pointOf(appId: string, { at, samples, cpu, ram, netIn, netOut }: Gathering): MetricPoint {
  return { appId, at: new Date(at), cpu: cpu / samples, ram: ram / samples, netIn, netOut }
}
