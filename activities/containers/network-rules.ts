import { KiB } from '../../lib/bytes.ts'
import { outcomeOf, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { namePacketsFor, networkLimits } from '../../policy/hosts/network-limits.ts'
import { labels } from './port.ts'

export interface NetworkRulesOptions {
  /** Whether a container still runs. */
  runs(container: string): Promise<boolean>
  /** Called once for each kind of rule that could not be set in a container that runs. */
  report(failure: { container: string; error: string }, words: string): void
}

/** What bounds the network of each started container (`DockerHostOptions.started`). Never rejects: what cannot be bounded is reported. */
export function networkRules({ runs, report }: NetworkRulesOptions) {
  const reported = new Set<string>()
  const orReport = (container: string, words: string) => async (error: unknown) => {
    // There is no network of one that has ended, which says nothing of the others.
    if (reported.has(words) || !(await runs(container).catch(() => false))) return
    reported.add(words)
    report({ container, error: String(error) }, words)
  }
  return async (container: string, network: string, memoryMb: number, of: Readonly<Record<string, string>>) => {
    await limitConnections(network, of).catch(
      orReport(container, 'connections to databases are not limited: see docs/decisions/databases.md'),
    )
    await limitNameServer(network, memoryMb).catch(
      orReport(container, 'queries of containers to the name server are not limited: see docs/decisions/containers.md'),
    )
  }
}

/** Address at which an engine resolves names inside every container's network. */
const nameServer = '127.0.0.11'

/**
 * Bounds what a container sends to the engine's name server, by rules in the container's own network, which its program has no
 * capability to remove. `network` is the file of that network as the engine reports it; the file of a remote engine does
 * not exist here. Rejects when the rules cannot be set, also because the container has already ended.
 */
export async function limitNameServer(network: string, memoryMb: number): Promise<void> {
  const { nameStreamBytesPerSecond: perSecond, nameStreamBytesAtOnce: atOnce } = networkLimits
  const packets = namePacketsFor(memoryMb)
  const stream = above('names-stream', `${perSecond / KiB}kb/s`, `${atOnce / KiB}kb`)
  await setRules(network, [
    // Every port: the engine's own rules have already replaced 53 with the one that it listens on.
    `-m hashlimit ${above('names', `${packets.perSecond}/sec`, packets.atOnce)}`,
    `-p tcp -m hashlimit ${stream}`,
  ])
}

const above = (table: string, rate: string, burst: number | string): string =>
  `--hashlimit-above ${rate} --hashlimit-burst ${burst} --hashlimit-name ${table}`

/** Replaces the rules of the chain, which are all ours, in one commit: after a lost answer a container that already runs is started again. */
async function setRules(network: string, matches: readonly string[]): Promise<void> {
  const rules = matches.map(match => `-A OUTPUT -d ${nameServer} ${match} -j REJECT`)
  const text = ['*filter', '-F OUTPUT', ...rules, 'COMMIT', ''].join('\n')
  const { code, error } = await within(network, ['iptables-restore', '-w', '--noflush'], text)
  if (code !== 0) throw new Error(`The rules of ${network} were not set: ${error.trim()}`)
}

/**
 * Bounds the open connections to the port of a database, of all clients, by a rule in the container's own network: it sees them all,
 * also those of its owner's programs and of this machine. Does nothing for containers whose labels name no bound. Rejects as
 * `limitNameServer`.
 */
export async function limitConnections(network: string, of: Readonly<Record<string, string>>): Promise<void> {
  const { [labels.port]: port, [labels.connections]: most } = of
  if (!port || !most) return
  const tooMany = `-m connlimit --connlimit-above ${most} --connlimit-saddr --connlimit-mask 0`
  const rule = `INPUT -p tcp --dport ${port} --syn ${tooMany} -j REJECT --reject-with tcp-reset`.split(' ')
  // One that is there stays: another one would count from zero.
  const { code } = await within(network, ['iptables', '-w', '-C', ...rule])
  if (code === 0) return
  const { code: failed, error } = await within(network, ['iptables', '-w', '-A', ...rule])
  if (failed) throw new Error(`Connections to ${network} are not limited: ${error.trim()}`)
}

/** Runs a program in the network of a container. */
function within(network: string, command: readonly string[], input = ''): ReturnType<typeof outcomeOf> {
  const child = startProcess('nsenter', [`--net=${network}`, ...command], {
    env: systemEnvironment,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const outcome = outcomeOf(child) // first: a program that cannot be started has no input, and reports that later
  // A program that has ended does not read; its exit code decides.
  child.stdin?.on('error', () => {}).end(input)
  return outcome
}
