import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerInspectInfo } from 'dockerode'
import { MiB } from '../../../lib/bytes.ts'
import { socketBytesFor } from '../../../policy/apps/sizes.ts'
import type { Cgroups } from './options.ts'

const root = '/sys/fs/cgroup/memory'
const limitFile = 'memory.kmem.tcp.limit_in_bytes'

type ContainerInfo = Pick<ContainerInspectInfo, 'Id' | 'State' | 'HostConfig'>

/**
 * Bounds the kernel memory of the sockets of a container that is about to start, where control groups are of version 1: only
 * version 2 counts sockets as memory, and no current engine passes its own option on. The group is created before the engine does, which
 * adopts an existing one: sockets that a program opens before there is a limit are never counted. Does nothing where this process may
 * not create the group.
 */
export function limitSocketMemory({ driver, version }: Cgroups, { Id, State, HostConfig }: ContainerInfo): void {
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

/** The same for a running container, whose group only the engine could create. */
export function limitRunningSocketMemory({ version }: Cgroups, { State, HostConfig, Id }: ContainerInfo): void {
  if (version !== '1' || !State.Running) return
  try {
    const path = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(readFileSync(`/proc/${State.Pid}/cgroup`, 'utf8'))?.[1]
    // The process ids of a remote engine mean other processes here.
    if (path?.includes(Id)) writeFileSync(join(root, path, limitFile), limitOf(HostConfig))
  } catch {
    // It has ended, or the group is not visible here.
  }
}

const limitOf = ({ Memory = 0 }: ContainerInfo['HostConfig']): string => String(socketBytesFor(Memory / MiB))

function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch {
    // It was not created.
  }
}
