import { InterceptingCall, type Interceptor } from '@grpc/grpc-js'
import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  type Metadata,
  makeGrpcRetryInterceptor,
} from '@temporalio/client'
import { type Logger, pino } from 'pino'
import type { Config } from '../policy/config.ts'
import { logOutput } from './log-output.ts'
import { temporalConnection } from './temporal/temporal-connection.ts'

/** Logs one JSON line per event to standard output; values that may contain a secret are never logged. */
export function openLog(config: Pick<Config, 'logLevel'>, name: string): Logger {
  const options = { name, level: config.logLevel, base: { name }, timestamp: pino.stdTimeFunctions.isoTime }
  return pino(options, logOutput(1))
}

/** Without a deadline the client would retry for minutes, within a request too. */
const callDeadlineMs = 3000

/**
 * A connection to one namespace, which each call names in its metadata. The client would set it by `AsyncLocalStorage` for each call;
 * once that was used, Node 20 follows the context of every promise of the process.
 */
class NamespacedConnection extends Connection {
  override withMetadata<R>(_: Metadata, work: () => Promise<R>): Promise<R> {
    return work()
  }
}

/**
 * A client that connects on first use, so that a process can start while Temporal is down. Each call rejects after `deadlineMs`, or up to
 * a pause of its retries later; null = it may wait for ever. `withDeadline` gives calls another time, by `AsyncLocalStorage`: not for
 * processes that serve requests.
 */
export function openTemporal(config: Config, deadlineMs: number | null = callDeadlineMs): Client {
  const withDefault: Interceptor = (options, next) => {
    const deadline = options.deadline ?? Date.now() + (deadlineMs ?? Number.POSITIVE_INFINITY)
    return new InterceptingCall(next({ ...options, deadline }))
  }
  const namespace = config.temporalNamespace
  const connection = NamespacedConnection.lazy({
    ...temporalConnection(config),
    interceptors: [withDefault, makeGrpcRetryInterceptor(defaultGrpcRetryOptions())],
    metadata: { 'temporal-namespace': namespace },
  })
  return new Client({ connection, namespace })
}

type Closer = () => Promise<unknown>

/**
 * The life of a process under the supervisor: reports when it is ready, shuts down gracefully on SIGTERM, SIGINT, or when the
 * supervisor has ended, and waits at most `graceSeconds` for its closers, which run in reverse order.
 */
export function runUntilSignal(log: Logger, graceSeconds: number) {
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
  process.on('disconnect', () => void end('the supervisor has ended'))
  process.on('unhandledRejection', error => log.error({ err: error }, 'unhandled rejection'))

  return {
    onEnd: (close: Closer) => void closers.push(close),
    ready: () => process.send?.({ ready: true }),
    end,
  }
}
