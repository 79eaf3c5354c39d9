import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import { connectTemporal, type TemporalAccess } from '../../workers/temporal/temporal-connection.ts'
import type { Say } from '../terminal/terminal.ts'
import { temporalBinary } from './temporal-binary.ts'

export interface TemporalOptions {
  /** Folder of the server's database; null keeps everything in memory, for tests. */
  folder: string | null
  port: number
  /** Null = no web interface. */
  uiPort: number | null
}

/** Attributes by which operators find runs; only ids, because they are stored in clear text. */
const searchAttributes = ['AppId', 'OwnerId', 'HostId', 'OperationKind', 'DeploymentId', 'Hostname']

/** Measured: the defaults of the two poll rates add 50 ms to every dispatch of a task. */
const dynamicConfig: Record<string, unknown> = {
  'history.transferProcessorMaxPollRPS': 2000,
  'history.timerProcessorMaxPollRPS': 2000,
  'system.enableActivityEagerExecution': true,
  'matching.numTaskqueueReadPartitions': 1,
  'matching.numTaskqueueWritePartitions': 1,
  'matching.enableFairness': true,
}

/** The arguments of the development server, bound to loopback. */
export function temporalArguments({ folder, port, uiPort }: TemporalOptions): string[] {
  return [
    'server',
    'start-dev',
    ...['--ip', '127.0.0.1', '--port', String(port), '--log-level', 'warn'],
    ...(uiPort === null ? ['--headless'] : ['--ui-ip', '127.0.0.1', '--ui-port', String(uiPort)]),
    // A write-ahead log that is flushed: quick to start, and a power cut loses nothing that was acknowledged.
    ...(folder === null
      ? []
      : [
          '--db-filename',
          join(folder, 'temporal.db'),
          '--sqlite-pragma',
          'journal_mode=wal',
          '--sqlite-pragma',
          'synchronous=full',
        ]),
    ...Object.entries(dynamicConfig).flatMap(([name, value]) => [
      '--dynamic-config-value',
      `${name}=${JSON.stringify(value)}`,
    ]),
    ...searchAttributes.flatMap(name => ['--search-attribute', `${name}=Keyword`]),
  ]
}

/** Temporal's own server as one of our processes. */
export async function temporalProcess(options: TemporalOptions, say: Say): Promise<ProcessSpec> {
  const command = await temporalBinary(say)
  if (options.folder) mkdirSync(options.folder, { recursive: true, mode: 0o700 })
  const address = `127.0.0.1:${options.port}`
  return {
    name: 'temporal',
    command: async () => ({
      command,
      args: temporalArguments(options),
      env: { PATH: process.env.PATH, HOME: process.env.HOME },
    }),
    ready: () => namespaceAnswers(inTheClear(address), 'default'),
    readySeconds: 60,
    stopSignal: 'SIGTERM',
    graceSeconds: 10,
    needs: [],
  }
}

const inTheClear = (temporalAddress: string): TemporalAccess => ({
  temporalAddress,
  temporalTls: null,
  temporalApiKey: null,
})

/** Milliseconds for a connection and for an answer of a server on this machine, and of one elsewhere. */
const answersWithinMs = { here: 1000, elsewhere: 5000 }

/**
 * Resolves if the Temporal at TEMPORAL_ADDRESS serves our namespace. Throws an Error that names the address and the setting to change.
 */
export async function externalTemporalAnswers(
  config: TemporalAccess & { temporalNamespace: string },
  withinMs = answersWithinMs.elsewhere,
): Promise<void> {
  const at = `Temporal at ${config.temporalAddress}`
  await namespaceAnswers(config, config.temporalNamespace, withinMs).catch(error => {
    const { code, message } = error as { code?: number; message: string }
    if (message.includes('TEMPORAL_')) throw error
    if (code === status.NOT_FOUND)
      throw new Error(
        `${at} has no namespace "${config.temporalNamespace}": create it (temporal operator namespace create --namespace ${config.temporalNamespace}), or set TEMPORAL_NAMESPACE to another one.`,
      )
    if (code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED)
      throw new Error(`${at} refuses access (${message}): set TEMPORAL_API_KEY to a valid key.`)
    throw new Error(
      `${at} does not answer. It is set with TEMPORAL_ADDRESS: start it there, or remove the setting, and Berth starts its own.`,
    )
  })
}

/** Status codes of gRPC, which the client declares in a package that is not a dependency of Berth. */
const status = { NOT_FOUND: 5, PERMISSION_DENIED: 7, UNAUTHENTICATED: 16 }

/** Resolves if the server serves this namespace, else rejects. */
export async function namespaceAnswers(
  access: TemporalAccess,
  namespace: string,
  withinMs = answersWithinMs.here,
): Promise<void> {
  const connection = await connectTemporal(access, withinMs)
  try {
    const deadline = Date.now() + withinMs
    await connection.withDeadline(deadline, () => connection.workflowService.describeNamespace({ namespace }))
  } finally {
    await connection.close()
  }
}
