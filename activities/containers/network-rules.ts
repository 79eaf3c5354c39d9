import type { Socket } from 'node:net'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB } from '../../lib/bytes.ts'
import { outcomeOf, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { type ConnectionShares, connectionShares } from '../../policy/databases/engines.ts'
import { namePacketsFor, networkLimits } from '../../policy/hosts/network-limits.ts'
import { Spare, spareAfterMs } from '../child-process/spare.ts'
import { labels, type StartedContainer } from './port.ts'

export interface NetworkRulesOptions {
  /** Whether a container still runs. */
  runs(container: string): Promise<boolean>
  /** Called once for each kind of rule that could not be set in a container that runs. */
  report(failure: { container: string; error: string }, words: string): void
}

/**
 * What bounds the network of each started container (`DockerHostOptions.started`). Never rejects: what cannot be bounded is reported. A
 * process waits for the next container: to start one takes longer than to set rules.
 */
export function networkRules({ runs, report }: NetworkRulesOptions) {
  const reported = new Set<string>()
  const spare = new Spare(() => new WaitingRules())
  const orReport = (container: string, words: string) => async (error: unknown) => {
    // There is no network of one that has ended, which says nothing of the others.
    if (reported.has(words) || !(await runs(container).catch(() => false))) return
    reported.add(words)
    report({ container, error: String(error) }, words)
  }
  return {
    async limit(container: StartedContainer): Promise<void> {
      await limitConnections(container).catch(
        orReport(container.name, 'connections to databases are not limited: see docs/decisions/databases.md'),
      )
      const waiting = spare.take()
      // One that waited may have been ended or stopped by somebody else.
      const limited = waiting && limitNameServer(container, waiting).catch(() => limitNameServer(container))
      await (limited ?? limitNameServer(container)).catch(
        orReport(
          container.name,
          'queries of containers to the name server are not limited: see docs/decisions/containers.md',
        ),
      )
      spare.prepare(spareAfterMs)
    },
    close: () => spare.close(),
  }
}

/** Address at which an engine resolves names inside every container's network. */
const nameServer = '127.0.0.11'

/**
 * Bounds what a container sends to the engine's name server, by rules in the container's own network, which its program has no
 * capability to remove. Rejects when the rules cannot be set, also because the container has already ended.
 */
export async function limitNameServer(
  { network, memoryMb }: Pick<StartedContainer, 'network' | 'memoryMb'>,
  waiting?: WaitingRules,
): Promise<void> {
  const { nameStreamBytesPerSecond: perSecond, nameStreamBytesAtOnce: atOnce } = networkLimits
  const packets = namePacketsFor(memoryMb)
  const stream = above('names-stream', `${perSecond / KiB}kb/s`, `${atOnce / KiB}kb`)
  const rules = [
    // Every port: the engine's own rules have already replaced 53 with the one that it listens on.
    `-m hashlimit ${above('names', `${packets.perSecond}/sec`, packets.atOnce)}`,
    `-p tcp -m hashlimit ${stream}`,
  ]
  // Replaced in one commit, as they are all ours: after a lost answer a container that already runs is started again.
  await commit(network, ['-F OUTPUT', ...rules.map(match => `-A OUTPUT -d ${nameServer} ${match} -j REJECT`)], waiting)
}

const above = (table: string, rate: string, burst: number | string): string =>
  `--hashlimit-above ${rate} --hashlimit-burst ${burst} --hashlimit-name ${table}`

async function commit(network: string, lines: readonly string[], waiting = new WaitingRules()): Promise<void> {
  const text = ['*filter', ...lines, 'COMMIT', ''].join('\n')
  const { code, error } = await waiting.commit(network, text)
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
    // Refused where the chains exist: a start of a container and the watch of the host may call this at the same time.
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
  const above = (max: number, prefix: 0 | 32) =>
    `-p tcp -m connlimit --connlimit-above ${max} --connlimit-saddr --connlimit-mask ${prefix} -j REJECT --reject-with tcp-reset`
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
function within(network: string, command: readonly string[]): ReturnType<typeof outcomeOf> {
  return outcomeOf(
    startProcess('nsenter', [`--net=${network}`, ...command], {
      env: systemEnvironment,
      stdio: ['ignore', 'ignore', 'pipe'],
    }),
  )
}

/** Rules are set within milliseconds, unless another program holds the lock of the kernel's tables, or the process was stopped while it waited. */
const commitMs = 10_000

/** A process that waits for the path of the network in which it is to set rules. */
export class WaitingRules {
  readonly #child = startProcess(
    'sh',
    ['-c', 'read -r net && exec nsenter --net="$net" iptables-restore -w --noflush'],
    {
      env: systemEnvironment,
      stdio: ['pipe', 'ignore', 'pipe'],
    },
  )
  /** Awaited from the start: a program that cannot be started has no input, and reports that later. */
  readonly #outcome = outcomeOf(this.#child)

  constructor() {
    this.#outcome.catch(ignoreError('reported to the caller that awaits it'))
  }

  commit(network: string, text: string): ReturnType<typeof outcomeOf> {
    // A program that has ended does not read; its exit code decides.
    this.#child.stdin?.on('error', () => {}).end(`${network}\n${text}`)
    const late = setTimeout(() => this.end(), commitMs)
    return this.#outcome.finally(() => clearTimeout(late))
  }

  hold(isWorking: boolean): this {
    const { stdin, stderr } = this.#child
    for (const handle of [this.#child, stdin as Socket | null, stderr as Socket | null]) {
      if (isWorking) handle?.ref()
      else handle?.unref()
    }
    return this
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}
