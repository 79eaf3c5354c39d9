import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker'
import type { Logger } from 'pino'
import type { Config } from '../policy/config.ts'

export interface RunningWorker {
  /** Rejects when the worker fails for good; the process should end then. */
  ended: Promise<void>
  /** Lets running activities finish or hands them back. */
  stop(): Promise<void>
}

/** Starts a worker as soon as Temporal answers, however long that takes. */
export async function startWorker(config: Config, log: Logger, options: WorkerOptions): Promise<RunningWorker> {
  const connection = await connect(config, log)
  const worker = await Worker.create({
    connection,
    namespace: config.temporalNamespace,
    shutdownGraceTime: '5s',
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    ...options,
  })
  const ended = worker.run()
  ended.catch(() => {}) // told to whoever awaits it
  return {
    ended,
    async stop() {
      if (worker.getState() === 'RUNNING') worker.shutdown()
      await ended
      await connection.close()
    },
  }
}

/** The compiled bundle where it was built, else the sources, which take some seconds to bundle. */
export function workflowCode(bundle?: string): Pick<WorkerOptions, 'workflowBundle' | 'workflowsPath'> {
  const codePath = bundle ?? fileURLToPath(new URL('../workflows.bundle.js', import.meta.url))
  if (existsSync(codePath)) return { workflowBundle: { codePath } }
  return { workflowsPath: fileURLToPath(new URL('../workflows/index.ts', import.meta.url)) }
}

async function connect(config: Config, log: Logger): Promise<NativeConnection> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await NativeConnection.connect({ address: config.temporalAddress })
    } catch (error) {
      if (attempt % 10 === 1) log.warn({ err: error }, 'Temporal does not answer yet')
      await sleep(300)
    }
  }
}
