import type { MetricPoint } from '../../policy/apps/metrics.ts'

export type Point = Omit<MetricPoint, 'appId'>

/** CPU in percent of one core, memory in MB, network in bytes as [in, out]. */
export const metricView = ({ at, cpu, ram, netIn, netOut }: Point) => ({
  date: at.toISOString(),
  cpu: Math.round(cpu * 100) / 100,
  ram: Math.round(ram * 10) / 10,
  net: [netIn, netOut],
})
