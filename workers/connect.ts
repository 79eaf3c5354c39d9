import { Client, Connection } from '@temporalio/client'
import { type Logger, pino } from 'pino'
import type { Config } from '../policy/config.ts'
import { logOutput } from './log-output.ts'
import { temporalConnection } from './temporal/temporal-connection.ts'

/** One JSON line per event on standard output; what may hold a secret is never logged. */
export function openLog(config: Pick<Config, 'logLevel'>, name: string): Logger {
  const options = { name, level: config.logLevel, base: { name }, timestamp: pino.stdTimeFunctions.isoTime }
  return pino(options, logOutput(1))
}

/** A client that connects when it is first used, so that a process starts while Temporal is still away. */
export function openTemporal(config: Config): Client {
  const connection = Connection.lazy(temporalConnection(config))
  return new Client({ connection, namespace: config.temporalNamespace })
}

type Closer = () => Promise<unknown>

/**
 * The life of a process under the supervisor: says when it is ready, ends gracefully on SIGTERM or SIGINT, ends too when the
 * supervisor is gone, and never waits longer than `graceSeconds` for its closers (run in reverse order).
 */
export function runProcess(log: Logger, graceSeconds: number) {
  const closers: Closer[] = []
  let ending = false

  async function end(reason: string, code = 0): Promise<void> {
    if (ending) return
    ending = true
    log.info({ reason }, 'ending')
    const timer = setTimeout(() => process.exit(1), graceSeconds * 1000)
    timer.unref()
    for (const close of closers.reverse())
      await close().catch(error => log.error({ err: error }, 'a part did not close'))
    process.exit(code)
  }

  process.on('SIGTERM', () => void end('SIGTERM'))
  process.on('SIGINT', () => void end('SIGINT'))
  process.on('disconnect', () => void end('the supervisor is gone'))
  process.on('unhandledRejection', error => log.error({ err: error }, 'a rejection nobody handled'))

  return {
    onEnd: (close: Closer) => void closers.push(close),
    ready: () => process.send?.({ ready: true }),
    end,
  }
}
