import { access, realpath, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { DiskLimits } from '../containers/port.ts'
import type { Volumes } from './port.ts'

export interface DiskLimitOptions {
  /** MB per second each way; 0 = no limit. */
  mbps: number
  /** Operations per second each way; 0 = no limit. */
  iops: number
  volumes: Pick<Volumes, 'device'>
  /** The folder of the volumes; usually the engine's images are on the same disk. */
  folder: string
}

/** Disk limits of each container of an application; null = none. */
export async function diskLimits(
  appId: string,
  { mbps, iops, volumes, folder }: DiskLimitOptions,
): Promise<DiskLimits | null> {
  if (mbps === 0 && iops === 0) return null
  const [own, host] = await Promise.all([volumes.device(appId), diskOf(folder)])
  if (!own && !host) return null
  return { mbps, iops, own, host }
}

/** The disk of a folder as `/dev/<name>`, the whole disk for a partition; null where the kernel names none. */
export async function diskOf(folder: string): Promise<string | null> {
  const { dev } = await stat(folder, { bigint: true })
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n)
  try {
    const block = await realpath(`/sys/dev/block/${major}:${minor}`)
    const isPartition = await access(`${block}/partition`).then(
      () => true,
      () => false,
    )
    const disk = `/dev/${basename(isPartition ? dirname(block) : block).replaceAll('!', '/')}`
    await access(disk)
    return disk
  } catch {
    return null
  }
}
