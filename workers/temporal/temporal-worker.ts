import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DefaultLogger, type LogEntry, NativeConnection, Runtime, Worker, type WorkerOptions } from '@temporalio/worker'
import type { Logger } from 'pino'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { Config } from '../../policy/config.ts'
import { temporalConnection, temporalRefusal } from './temporal-connection.ts'

export interface RunningWorker {
  /** Rejects when the worker fails permanently; the process should exit then. */
  ended: Promise<void>
  /** Lets running activities finish, or returns them to the queue. */
  stop(): Promise<void>
}

let installed = false

/** Sends the SDK's log lines to the process's log; a failed activity is an outcome, not a fault of the platform. */
function installRuntime(log: Logger): void {
  if (installed) return
  installed = true
  const logger = new DefaultLogger('WARN', ({ level, message, meta }: LogEntry) => {
    const fields = { ...meta, taskToken: undefined, error: String(meta?.error ?? '') || undefined }
    if (level === 'ERROR') log.error(fields, message)
    else log.info(fields, message)
  })
  Runtime.install({ logger, telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } } })
}

/** Starts a worker as soon as Temporal answers, however long that takes. Rejects if TLS can never succeed. */
export async function startWorker(config: Config, log: Logger, options: WorkerOptions): Promise<RunningWorker> {
  installRuntime(log)
  const connection = await connect(config, log)
  const worker = await Worker.create({
    connection,
    namespace: config.temporalNamespace,
    shutdownGraceTime: '5s',
    // A step that cannot end (its database is down) is abandoned: the lane continues from the rows.
    shutdownForceTime: '10s',
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    ...options,
  })
  const ended = worker.run()
  ended.catch(ignoreError('reported to the caller that awaits it'))
  return {
    ended,
    async stop() {
      if (worker.getState() === 'RUNNING') worker.shutdown()
      await ended
      await connection.close()
    },
  }
}

/** The compiled bundle if there is one, else the sources, which take some seconds to bundle. */
export function workflowCode(bundle?: string): Pick<WorkerOptions, 'workflowBundle' | 'workflowsPath'> {
  const codePath = bundle ?? fileURLToPath(new URL('../../workflows.bundle.js', import.meta.url))
  if (existsSync(codePath)) return { workflowBundle: { codePath } }
  return { workflowsPath: fileURLToPath(new URL('../../workflows/index.ts', import.meta.url)) }
}

async function connect(config: Config, log: Logger): Promise<NativeConnection> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await NativeConnection.connect(temporalConnection(config))
    } catch (error) {
      const refusal = await temporalRefusal(config)
      if (refusal) throw new Error(refusal)
      if (attempt % 10 === 1) log.warn({ err: error }, 'Temporal does not answer yet')
      await sleep(300)
    }
  }
}
