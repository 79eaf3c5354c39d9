import { KiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { namePacketsFor, networkLimits } from '../../policy/hosts/network-limits.ts'

/** Address at which an engine resolves names inside every container's network. */
const nameServer = '127.0.0.11'

/**
 * Bounds what a container sends to the engine's name server, by rules in the container's own network, which its program has no
 * capability to remove. `network` is the file of that network as the engine reports it; the file of a remote engine does
 * not exist here. Rejects when a rule cannot be added, also because the container has already ended.
 */
export async function limitNameServer(network: string, memoryMb: number): Promise<void> {
  const { nameStreamBytesPerSecond: perSecond, nameStreamBytesAtOnce: atOnce } = networkLimits
  const packets = namePacketsFor(memoryMb)
  // Every port: the engine's own rules have already replaced 53 with the one that it listens on.
  await ensureRule(network, `-m hashlimit ${above('names', `${packets.perSecond}/sec`, packets.atOnce)}`)
  const stream = above('names-stream', `${perSecond / KiB}kb/s`, `${atOnce / KiB}kb`)
  await ensureRule(network, `-p tcp -m hashlimit ${stream}`)
}

const above = (table: string, rate: string, burst: number | string): string =>
  `--hashlimit-above ${rate} --hashlimit-burst ${burst} --hashlimit-name ${table}`

async function ensureRule(network: string, match: string): Promise<void> {
  const rule = `OUTPUT -d ${nameServer} ${match} -j REJECT`
  const iptables = (act: string) =>
    runProcess('nsenter', [`--net=${network}`, 'iptables', '-w', act, ...rule.split(' ')], { env: systemEnvironment })
  // After a lost answer a container that already runs is started again.
  await iptables('-C').catch(() => iptables('-A'))
}
