import { MiB } from '../../lib/bytes.ts'

/** Metrics of a running application: one point for each 5 minutes of the last 24 hours, from a sample every 15 s (contract 4.14). */
export const metricRules = {
  /** Smaller applications have no metrics, only memory alerts. */
  fromMemoryMb: 512,
  sampleSeconds: 15,
  pointSeconds: 300,
  keptHours: 24,
  maxPoints: 288,
} as const

/** One sample of a container. Memory in bytes; network in bytes since the start of its run. */
export interface Sample {
  /** Identifies container and run: the counters of another run start at zero. */
  run: string
  startedAt: Date
  cpuPercent: number
  memoryBytes: number
  networkIn: number
  networkOut: number
}

/** Averages of CPU in percent of one core and memory in MB; network in bytes within the interval. `at` is its start. */
export interface MetricPoint {
  appId: string
  at: Date
  cpu: number
  ram: number
  netIn: number
  netOut: number
}

/** The samples of an interval so far. Times in milliseconds. */
export interface SampleSum {
  at: number
  samples: number
  cpu: number
  ram: number
  netIn: number
  netOut: number
  last: Sample
}

/** Start of the interval that contains a moment, the same on every host. */
export const intervalOf = (now: number, pointSeconds: number): number => now - (now % (pointSeconds * 1000))

/** Adds a sample to the interval that starts at `at`. */
export function addSample(before: SampleSum | undefined, sample: Sample, at: number): SampleSum {
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

/** The counters of this run at the previous sample. Traffic before the first sample does not belong to this interval. */
function baseline(last: Sample | undefined, sample: Sample, at: number): Pick<Sample, 'networkIn' | 'networkOut'> {
  if (!last) return sample.startedAt.getTime() >= at ? zero : sample
  const isSameRun =
    last.run === sample.run && last.networkIn <= sample.networkIn && last.networkOut <= sample.networkOut
  return isSameRun ? last : zero
}

const zero = { networkIn: 0, networkOut: 0 }

export function pointOf(appId: string, { at, samples, cpu, ram, netIn, netOut }: SampleSum): MetricPoint {
  return { appId, at: new Date(at), cpu: cpu / samples, ram: ram / samples, netIn, netOut }
}
