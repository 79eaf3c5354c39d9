import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { processStat } from '../../../lib/process-stat.ts'

export interface ListeningSocket {
  /** As the kernel writes it: hex, each word of 32 bits with its last byte first. */
  address: string
  port: number
  /** Of the process that holds it. */
  pid: number
}

const [v4Loopback, v6Loopback] = [/^[0-9A-F]{6}7F$/, /^0{24}01000000$/]
const mappedLoopback = /^0{16}FFFF0000[0-9A-F]{6}7F$/

export const isLoopback = ({ address }: ListeningSocket): boolean =>
  [v4Loopback, v6Loopback, mappedLoopback].some(form => form.test(address))

/** Every TCP socket on which one of these processes, or one that it has started, listens. Needs the right to look into them. */
export function listeningSockets(pids: readonly number[]): ListeningSocket[] {
  const wanted = new Set(pids)
  const all = readdirSync('/proc').map(Number).filter(Boolean)
  for (let before = -1; before < wanted.size; ) {
    before = wanted.size
    for (const pid of all) if (wanted.has(processStat(pid)?.parent ?? 0)) wanted.add(pid)
  }
  const holders = new Map([...wanted].flatMap(pid => socketsOf(pid).map(inode => [inode, pid] as const)))
  return ['tcp', 'tcp6'].flatMap(table =>
    readFileSync(`/proc/net/${table}`, 'latin1')
      .split('\n')
      .slice(1, -1)
      .flatMap(line => {
        const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/)
        const pid = holders.get(inode)
        if (state !== '0A' || pid === undefined) return []
        const [address = '', port = ''] = local.split(':')
        return [{ address, port: Number.parseInt(port, 16), pid }]
      }),
  )
}

/** Inodes of its sockets; none of a process that has ended meanwhile. */
function socketsOf(pid: number): string[] {
  try {
    const names = readdirSync(`/proc/${pid}/fd`)
    return names.flatMap(name => /^socket:\[(\d+)\]$/.exec(target(`/proc/${pid}/fd/${name}`))?.[1] ?? [])
  } catch {
    return []
  }
}

function target(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
