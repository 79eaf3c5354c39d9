import type { Client } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import type { Release } from '../../../activities/releases/release.ts'
import * as apps from '../../../db/apps/apps.ts'
import * as operations from '../../../db/operations/operations.ts'
import { openTemporal } from '../../../workers/connect.ts'
import { downgradeRelay } from '../../../workers/loops/overdue-relay.ts'
import { LaneRelay } from '../../../workers/loops/relay.ts'
import { temporalDowngrades } from '../../../workers/temporal/downgrades.ts'
import { temporalLanes } from '../../../workers/temporal/lanes.ts'
import { CommandScript } from '../../contracts/command-script.ts'
import { downgradesContract, lostDowngradesContract } from '../../contracts/downgrades.ts'
import type { Trouble } from '../../contracts/host-troubles.ts'
import { lanesContract, lostWakesContract } from '../../contracts/lanes.ts'
import { openApiFor, type TestApi, testApi } from '../../kit/actors/api.ts'
import { plansOfMemory } from '../../kit/rows/rows.ts'
import { laneKit } from '../../workflows/lane-kit.ts'

const log = pino({ level: 'silent' })

const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('stop the API over Temporal', async () => {
  for (const step of undo.reverse()) await step()
})

/** What the host of the real lanes does. */
const host = new CommandScript()
/** What goes wrong with an application there at the moment. */
const troubles = new Map<string, Trouble>()

const commandOf = async ({ operationId }: Release) => {
  const { kind } = (await operations.findOperation((await kit).db, operationId ?? '')) ?? {}
  return kind === 'start' || kind === 'stop' || kind === 'restart' || kind === 'delete' ? kind : null
}

async function begins(release: Release): Promise<void> {
  const { appId, number } = release
  const command = await commandOf(release)
  const refused = command && (await host.begins(appId, command))
  troubles.delete(appId)
  if (!refused) return
  if (refused.trouble === 'its program has ended') (await kit).hostHas(appId).end(number)
  else troubles.set(appId, refused.trouble)
}

async function ends(release: Release): Promise<void> {
  const command = await commandOf(release)
  if (command) host.ends(release.appId, command)
}

const kit: ReturnType<typeof laneKit> = laneKit({
  before: { stopApp: begins, startApp: begins, removeContainers: begins },
  after: { stopApp: ends, startApp: ends, removeContainers: ends },
  trouble: ({ appId }) => troubles.get(appId),
})

// One after the other: what the worker makes of the workflows holds up this process, and with it the databases of both APIs.
test.serial.before('start the lanes', async t => {
  t.timeout(120_000)
  await kit
})

const scripted = testApi()

/** The API over real lanes. Wake-ups are lost on a line to nowhere. */
const real = {} as { api: TestApi; lost: boolean }
test.serial.before('start the API over Temporal', async () => {
  const { db, config, client, queuePrefix } = await kit
  const nowhere = openTemporal({ ...config, temporalAddress: '127.0.0.1:1' }, 500)
  const over = (line: Client) => ({
    lanes: temporalLanes(line, { queuePrefix, idleSeconds: 2 }),
    downgrades: temporalDowngrades(line, { queuePrefix }),
  })
  const [known, lost] = [over(client), over(nowhere)]
  const now = () => (real.lost ? lost : known)
  const services = {
    lanes: { wake: (appId: string, ownerId: string) => now().lanes.wake(appId, ownerId) },
    downgrades: { wake: (userId: string) => now().downgrades.wake(userId) },
  }
  undo.push(() => nowhere.connection.close())
  real.api = await openApiFor({ db, url: config.databaseUrl }, { services: () => services }, undo)
})

async function realApp() {
  const { run, lanes, make } = await kit
  const ana = await real.api.makeUser()
  const { app, operationId } = await make.app(ana.id, {}, { plans: plansOfMemory(1_000_000) })
  await lanes.wake(app.id, ana.id)
  await run.ended(operationId)
  return { ana, app }
}

const overTemporal = () => ({
  api: real.api,
  lanes: real.api.services.lanes,
  downgrades: real.api.services.downgrades,
  host,
  running: realApp,
  lose(wakeUps: boolean) {
    real.lost = wakeUps
  },
  /** That of the kit's worker is at work. */
  relay: async () => {},
})

const scriptedHost = new CommandScript()
let ports = 40_000

const inProcess = () => {
  const { db, lanes, downgrades } = scripted()
  lanes.outcome = async ({ target_id: appId, kind }) => {
    const refused = await scriptedHost.begins(appId, kind as never)
    if (refused) return { state: 'error', code: refused.code, message: refused.message }
    scriptedHost.ends(appId, kind as never)
    return { state: 'success' }
  }
  const lose = (wakeUps: boolean) => {
    lanes.asleep = wakeUps
    downgrades.asleep = wakeUps
  }
  return {
    api: scripted(),
    lanes,
    downgrades,
    host: scriptedHost,
    async running() {
      const ana = await scripted().makeUser()
      const app = await scripted().makeApp(ana)
      const started = { release: 1, containerId: 'c1', hostPort: ports++, bootId: 'b1', startedAt: new Date() }
      await apps.recordDesiredState(db, app.id, 'running')
      await apps.recordStarted(db, app.id, started)
      return { ana, app }
    },
    lose,
    async relay() {
      lose(false)
      await new LaneRelay({ db, client: {} as never, lanes, databaseLanes: lanes, log }).round()
      await downgradeRelay({ db, client: {} as never, downgrades, log }).round()
    },
  }
}

for (const [name, subject] of [
  ['temporal', overTemporal],
  ['scripted', inProcess],
] as const) {
  lostWakesContract(test.serial, name, subject)
  lostDowngradesContract(test.serial, name, subject)
  lanesContract(test.serial, name, subject)
  downgradesContract(test.serial, name, subject)
}
