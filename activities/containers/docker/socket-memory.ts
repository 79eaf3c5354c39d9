import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerInspectInfo } from 'dockerode'
import { MiB } from '../../../lib/bytes.ts'
import { socketBytesFor } from '../../../policy/apps/sizes.ts'
import type { Cgroups } from './options.ts'

const root = '/sys/fs/cgroup/memory'
const limitFile = 'memory.kmem.tcp.limit_in_bytes'

type Known = Pick<ContainerInspectInfo, 'Id' | 'State' | 'HostConfig'>

/**
 * Bounds what the kernel holds for the sockets of a container that is about to start, where control groups are of version 1: only in
 * version 2 do sockets count as memory, and no current engine passes its own option on. The group is created before the engine does, which
 * adopts one that exists: sockets that a program opens before there is a limit are never counted. Where this process may not create the
 * group, nothing is done.
 */
export function limitSocketMemory({ driver, version }: Cgroups, { Id, State, HostConfig }: Known): void {
  const { CgroupParent = '' } = HostConfig
  if (version !== '1' || driver !== 'cgroupfs' || CgroupParent === '' || State.Running) return
  const group = join(root, CgroupParent, Id)
  try {
    mkdirSync(group, { recursive: true })
    writeFileSync(join(group, limitFile), limitOf(HostConfig))
  } catch {
    removeGroup(group)
  }
}

/** The same for one that runs, whose group only the engine could make. */
export function limitRunningSocketMemory({ version }: Cgroups, { State, HostConfig, Id }: Known): void {
  if (version !== '1' || !State.Running) return
  try {
    const path = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(readFileSync(`/proc/${State.Pid}/cgroup`, 'utf8'))?.[1]
    // The engine of another machine names processes that are other ones here.
    if (path?.includes(Id)) writeFileSync(join(root, path, limitFile), limitOf(HostConfig))
  } catch {
    // It has ended, or the group is not shown here.
  }
}

const limitOf = ({ Memory = 0 }: Known['HostConfig']): string => String(socketBytesFor(Memory / MiB))

function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch {
    // It was not created.
  }
}
