import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { type ContainerHost, labels } from '../../activities/containers/port.ts'
import { nanosecondsNow } from '../../activities/containers/stamps.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import { MiB } from '../../lib/bytes.ts'
import { hostReadKey } from '../../policy/keys.ts'
import { serveHost } from '../../workers/host/server/host-server.ts'

/**
 * A host's own server over an engine that is not there: every application runs and prints the time nine times a second, which
 * with its figures makes ten events. Tells its address to the process that forked it.
 */
const [masterKey = '', hostId = ''] = process.argv.slice(2)

const startedAt = new Date(0)
const stateOf = (app: string) => {
  const state = { id: app, name: app, labels: { [labels.release]: '1' }, status: 'running', running: true } as const
  const nowhere = { hostPort: null, hostAddress: null, address: null }
  return { ...state, exitCode: null, oom: false, startedAt, finishedAt: null, ...nowhere }
}

const engine = {
  async list(filter) {
    return [stateOf(filter[labels.app] ?? '')]
  },
  inspect: async name => stateOf(name),
  async stats() {
    const still = { networkIn: 0, networkOut: 0, blockRead: 0, blockWrite: 0 }
    return {
      cpuPercent: 1,
      memoryBytes: 30_000_000,
      residentBytes: 30_000_000,
      memoryLimitBytes: 512 * MiB,
      ...still,
      startedAt,
    }
  },
  async followLogs(_, __, onPiece, signal) {
    await sleep(Math.random() * 100) // applications do not print in step
    const timer = setInterval(
      () => void onPiece('stdout', `${Date.now()} the quick brown fox`, nanosecondsNow()),
      1000 / 9,
    )
    await new Promise(resolve => signal.addEventListener('abort', resolve))
    clearInterval(timer)
  },
} satisfies Partial<ContainerHost>

const { url } = await serveHost({
  db: {} as never,
  engine: engine as unknown as ContainerHost,
  volumes: {} as never,
  hostId,
  locks: appLocks(),
  key: hostReadKey(masterKey, hostId),
  address: '127.0.0.1',
  port: 0,
  log: pino({ level: 'silent' }),
} as Parameters<typeof serveHost>[0])
process.send?.({ url })
