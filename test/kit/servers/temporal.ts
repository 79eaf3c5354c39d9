import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { temporalProcess } from '../../../cli/services/temporal.ts'
import { memoryFolder, removeThrowAway, throwAwayFolder } from '../../../cli/test/test-postgres.ts'
import { startTicks } from '../../../lib/process-stat.ts'
import { readRecords } from '../../../workers/supervisor/process-record.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'
import { comesTrue } from '../comes-true.ts'

export interface TestTemporal {
  address: string
  /** Put before every queue name, so that test files share one server without meeting. */
  queuePrefix: string
}

/**
 * Call it once at the top level of a test file: the Temporal of the test run, with queues of its own. A file that is run alone,
 * without `./berth test`, starts a server in memory for itself.
 */
export function testTemporal(): Promise<TestTemporal> {
  const queuePrefix = `test-${randomBytes(4).toString('hex')}/`
  const shared = process.env.TEST_TEMPORAL_ADDRESS
  if (shared) return Promise.resolve({ address: shared, queuePrefix })
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  test.after.always('stop the test Temporal', async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  return startServer(supervisor).then(address => ({ address, queuePrefix }))
}

async function startServer(supervisor: Supervisor): Promise<string> {
  const port = await unusedPort()
  await supervisor.start(await temporalProcess({ folder: null, port, uiPort: null }, () => {}))
  return `127.0.0.1:${port}`
}

export interface OwnTemporal {
  start(): Promise<TestTemporal>
  /**
   * Ends it as a crash does, and removes all that it knows if it is to be `emptied`; resolves once it runs again. `whenDown` is called as
   * soon as it has ended.
   */
  kill(how: 'kept' | 'emptied', whenDown?: () => void): Promise<void>
}

/** Call it once at the top level of a test file: a Temporal of its own, in files, so that it can forget everything or nothing. */
export function ownTemporal(): OwnTemporal {
  const folder = memoryFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  let isEmptied = false
  let starts = 0
  let server: { ready: () => Promise<unknown> } | null = null
  // A run that is ended by a signal never reaches its hooks.
  process.once('exit', () => supervisor.kill())
  test.after.always('stop Temporal', async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  return {
    async start() {
      const port = await unusedPort()
      const spec = await temporalProcess({ folder: `${folder}/data`, port, uiPort: null }, () => {})
      server = { ready: spec.ready as () => Promise<unknown> }
      await supervisor.start({
        ...spec,
        command: async () => {
          starts++
          if (isEmptied)
            for (const end of ['', '-wal', '-shm']) rmSync(`${folder}/data/temporal.db${end}`, { force: true })
          return spec.command()
        },
      })
      return { address: `127.0.0.1:${port}`, queuePrefix: 'killed/' }
    },
    async kill(how, whenDown = () => {}) {
      isEmptied = how === 'emptied'
      const before = starts
      const { pid } = readRecords(`${folder}/run`)[0]!
      process.kill(-pid, 'SIGKILL')
      await comesTrue(() => startTicks(pid) === null)
      whenDown()
      await comesTrue(() => starts > before, 120)
      await comesTrue(() =>
        server!.ready().then(
          () => true,
          () => false,
        ),
      )
    },
  }
}
