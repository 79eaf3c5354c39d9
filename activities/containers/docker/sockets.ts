import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerInspectInfo } from 'dockerode'
import { socketBytesFor } from '../../../policy/apps/sizes.ts'
import type { Cgroups } from './options.ts'

const root = '/sys/fs/cgroup/memory'
const limitFile = 'memory.kmem.tcp.limit_in_bytes'

type Known = Pick<ContainerInspectInfo, 'Id' | 'State' | 'HostConfig'>

/**
 * Bounds what the kernel holds for the sockets of a container that is about to start, where control groups are of version 1: they count as
 * memory in version 2 only, and no engine of today hands its own option on. The group is made before the engine does, which takes one
 * that is there: sockets that a program opens before there is a limit are never counted. Where the group is not this process's to
 * make, nothing is done.
 */
export function boundSockets({ driver, version }: Cgroups, { Id, State, HostConfig }: Known): void {
  const { CgroupParent = '' } = HostConfig
  if (version !== '1' || driver !== 'cgroupfs' || CgroupParent === '' || State.Running) return
  const group = join(root, CgroupParent, Id)
  try {
    mkdirSync(group, { recursive: true })
    writeFileSync(join(group, limitFile), bytesOf(HostConfig))
  } catch {
    release(group)
  }
}

/** The same for one that runs, whose group only the engine could make. */
export function boundRunningSockets({ version }: Cgroups, { State, HostConfig, Id }: Known): void {
  if (version !== '1' || !State.Running) return
  try {
    const path = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(readFileSync(`/proc/${State.Pid}/cgroup`, 'utf8'))?.[1]
    // The engine of another machine names processes that are others' here.
    if (path?.includes(Id)) writeFileSync(join(root, path, limitFile), bytesOf(HostConfig))
  } catch {
    // It has ended, or the group is not shown here.
  }
}

const bytesOf = ({ Memory = 0 }: Known['HostConfig']): string => String(socketBytesFor(Memory / 1024 / 1024))

function release(group: string): void {
  try {
    rmdirSync(group)
  } catch {
    // Not made.
  }
}
