import test from 'ava'
import { type DatabaseCommand, databaseLanesContract } from '../../contracts/database-lanes.ts'
import { openApiFor, type TestApi, testApi } from '../../kit/actors/api.ts'
import { bringImages } from '../../kit/rows/databases.ts'
import { laneKit } from '../../workflows/lane-kit.ts'

const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('stop the API over Temporal', async () => {
  for (const step of undo.reverse()) await step()
})

/** The step by which a command fails at the host of the real lanes, and how often it is tried. */
const stepOf: Record<DatabaseCommand, string> = {
  create: 'prepareDatabase',
  start: 'startDatabase',
  stop: 'stopDatabase',
  resize: 'startDatabase',
  rotate: 'setDatabasePassword',
  certify: 'reissueCertificate',
  delete: 'removeDatabaseContainers',
}
const attempts = 3

const failing: { command: DatabaseCommand | null; left: number } = { command: null, left: 0 }
const held = new Map<string, Promise<void>>()

function holding(command: DatabaseCommand): () => void {
  let release = () => {}
  const waits = new Promise<void>(resolve => {
    release = resolve
  })
  held.set(command, waits)
  return () => {
    held.delete(command)
    release()
  }
}

const kit = laneKit(
  {},
  {},
  {
    async before({ kind }, name) {
      await held.get(kind)
      if (failing.command !== kind || stepOf[kind as DatabaseCommand] !== name || failing.left === 0) return
      failing.left--
      throw new Error(`${kind} fails`)
    },
  },
)

test.serial.before('start the lanes', async t => {
  t.timeout(120_000)
  await kit
})

/** The API over real lanes. */
const real = {} as { api: TestApi }
test.serial.before('start the API over Temporal', async () => {
  const { db, config, databaseLanes } = await kit
  await bringImages(db)
  real.api = await openApiFor({ db, url: config.databaseUrl }, { services: () => ({ databaseLanes }) }, undo)
})

databaseLanesContract(test.serial, 'temporal', () => ({
  api: real.api,
  fail: command => void Object.assign(failing, { command, left: command ? attempts : 0 }),
  hold: holding,
}))

const scripted = testApi()

databaseLanesContract(test.serial, 'scripted', () => {
  const api = scripted()
  const { databaseLanes } = api
  return {
    api,
    fail(command) {
      databaseLanes.outcome = async ({ kind }) => {
        await held.get(kind)
        return kind === command
          ? { state: 'error', code: 'ACTION_FAILED', message: `${kind} fails` }
          : { state: 'success' }
      }
    },
    hold: holding,
  }
})
