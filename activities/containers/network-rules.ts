import { KiB } from '../../lib/bytes.ts'
import { outcomeOf, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { type ConnectionShares, connectionShares } from '../../policy/databases/engines.ts'
import { namePacketsFor, networkLimits } from '../../policy/hosts/network-limits.ts'
import { labels, type StartedContainer } from './port.ts'

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
  return async (container: StartedContainer) => {
    await limitConnections(container).catch(
      orReport(container.name, 'connections to databases are not limited: see docs/decisions/databases.md'),
    )
    await limitNameServer(container).catch(
      orReport(
        container.name,
        'queries of containers to the name server are not limited: see docs/decisions/containers.md',
      ),
    )
  }
}

/** Address at which an engine resolves names inside every container's network. */
const nameServer = '127.0.0.11'

/**
 * Bounds what a container sends to the engine's name server, by rules in the container's own network, which its program has no
 * capability to remove. Rejects when the rules cannot be set, also because the container has already ended.
 */
export async function limitNameServer({
  network,
  memoryMb,
}: Pick<StartedContainer, 'network' | 'memoryMb'>): Promise<void> {
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
const setRules = (network: string, matches: readonly string[]): Promise<void> =>
  commit(network, ['-F OUTPUT', ...matches.map(match => `-A OUTPUT -d ${nameServer} ${match} -j REJECT`)])

async function commit(network: string, lines: readonly string[]): Promise<void> {
  const text = ['*filter', ...lines, 'COMMIT', ''].join('\n')
  const { code, error } = await within(network, ['iptables-restore', '-w', '--noflush'], text)
  if (code !== 0) throw new Error(`The rules of ${network} were not set: ${error.trim()}`)
}

/**
 * Bounds the open connections to the port of a database, by rules in the container's own network: they see them all, and where each comes
 * from. Rules that are there stay, as others would count from zero. Does nothing for containers whose labels name no bound. Rejects as
 * `limitNameServer`.
 */
export async function limitConnections({
  network,
  range,
  gateway,
  labels: of,
}: Omit<StartedContainer, 'name' | 'memoryMb'>): Promise<void> {
  const { [labels.port]: port, [labels.ownerConnections]: owner } = of
  if (!port || !owner) return
  const opening = `INPUT -p tcp --dport ${port} --syn -j clients`
  const areSet = async () => (await within(network, ['iptables', '-w', '-C', ...opening.split(' ')])).code === 0
  if (await areSet()) return
  const rules = clientRules(connectionShares(Number(owner)), { range, gateway })
  try {
    // Refused where the chains exist: whoever starts a container and the watch of the host may call this at the same time.
    await commit(network, ['-N clients', '-N outside', ...rules, `-A ${opening}`])
  } catch (error) {
    if (!(await areSet())) throw error
  }
}

/** The machine has an address in the range, and is not of it. */
function clientRules(
  shares: ConnectionShares,
  { range, gateway }: Pick<StartedContainer, 'range' | 'gateway'>,
): string[] {
  const above = (most: number, prefix: 0 | 32) =>
    `-p tcp -m connlimit --connlimit-above ${most} --connlimit-saddr --connlimit-mask ${prefix} -j REJECT --reject-with tcp-reset`
  return [
    `-A clients -s ${gateway} -g outside`,
    `-A clients -s ${range} ${above(shares.owner, 0)}`,
    `-A clients -s ${range} -j RETURN`,
    `-A clients ${above(shares.ofAddress, 32)}`,
    `-A clients ${above(shares.elsewhere, 0)}`,
    '-A clients -g outside',
    `-A outside ${above(shares.outside, 0)}`,
  ]
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
