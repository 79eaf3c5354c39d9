import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { networkLimits } from '../../policy/hosts/network-limits.ts'

/** Where an engine answers questions about names inside of every container's network. */
const nameServer = '127.0.0.11'

/**
 * Bounds what a container may ask of the engine's name server, by a rule in the container's own network: its program has no
 * capability to take it away. `network` is the file of that network as the engine tells it; another machine's engine tells one that is
 * not here. Rejects when the rule cannot be made, also because the container has ended already.
 */
export async function limitNameServer(network: string): Promise<void> {
  const { namePacketsPerSecond, namePacketsAtOnce } = networkLimits
  // Every port: the engine's own rules have replaced 53 with the one that it listens on by then.
  const rule = `OUTPUT -d ${nameServer} -m hashlimit --hashlimit-above ${namePacketsPerSecond}/sec --hashlimit-burst ${namePacketsAtOnce} --hashlimit-name names -j REJECT`
  const iptables = (act: string) =>
    runProcess('nsenter', [`--net=${network}`, 'iptables', '-w', act, ...rule.split(' ')], { env: systemEnvironment })
  // One that runs already is started again after a lost answer.
  await iptables('-C').catch(() => iptables('-A'))
}
