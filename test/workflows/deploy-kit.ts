import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { activityInfo } from '@temporalio/activity'
import type { Release } from '../../activities/releases/release.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { transaction } from '../../db/database.ts'
import { type DeploymentRow, findDeploymentByOperation } from '../../db/deploys/deployments.ts'
import { type DeployRequest, queueDeploy } from '../../db/deploys/deploys.ts'
import { queueRestore } from '../../db/snapshots/restores.ts'
import {
  findSnapshotByOperation as findSnapshotOf,
  queueSnapshot,
  type SnapshotRow,
} from '../../db/snapshots/snapshots.ts'
import { defaultPlans as plansOfAccounts } from '../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import type { StepName } from '../../policy/apps/step-kinds.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import { laneKit } from './lane-kit.ts'

type App = Pick<AppRow, 'id' | 'owner_id' | 'subdomain'>

/** Behaviour of one application at the scripted host, by step (`<activity> <release>`) or release number. */
interface Behaviour {
  pauseAt?: string
  /** Delay before a paused step ends after its cancellation, in ms. */
  confirmMs?: number
  /** Every later release has something to install. */
  install?: 'fails' | 'runs'
  copy?: 'fails'
  /** The release whose program ends right after its start. */
  unhealthy?: number
  /** Number of containers of the new release that vanish before they answer: they are removed, or their engine ends them. */
  vanish?: { times: number; by: 'removal' | 'engine' }
  /** The program of every later release answers as soon as it is started. */
  answersAtOnce?: boolean
  /** A running version cannot be started again: its image is missing. */
  startFails?: boolean
  /** The release whose files can never be put back: the disk is full. */
  restoreFails?: number
  /** Steps whose first attempt fails with the host. */
  lostIn?: Set<StepName>
  /** The host cannot go back until the plan is opened. */
  away?: boolean
}

class Plan {
  reached = new Promise<void>(resolve => {
    this.reach = resolve
  })
  opened = new Promise<void>(resolve => {
    this.open = () => {
      this.isOpen = true
      resolve()
    }
  })
  declare reach: () => void
  declare open: () => void
  isOpen = false
  confirmedAt = 0

  constructor(readonly behaviour: Behaviour) {}

  /** Waits where a step pauses; rejects when it is cancelled meanwhile. */
  async pass(step: string, signal: AbortSignal): Promise<void> {
    if (this.behaviour.pauseAt !== step) return
    this.reach()
    const cancelled = new Promise(resolve => signal.addEventListener('abort', () => resolve(true), { once: true }))
    if (!(await Promise.race([this.opened, cancelled]))) return
    await sleep(this.behaviour.confirmMs ?? 0)
    this.confirmedAt = Date.now()
    throw new Error('ended')
  }

  /** What ends the container of the current check; null = nothing. */
  ends(): 'removal' | 'engine' | null {
    const { vanish } = this.behaviour
    return vanish && vanish.times-- > 0 ? vanish.by : null
  }

  trouble(release: number, step: StepName): Trouble | null {
    const { install, copy, unhealthy, startFails, restoreFails, lostIn, away } = this.behaviour
    if (lostIn?.has(step) && activityInfo().attempt === 1)
      return step === 'placeFiles' ? 'it is cut off' : 'the engine is away'
    if (step === 'installDependencies') return install === 'fails' ? 'the install step fails' : null
    if (step === 'startRelease') return unhealthy === release ? 'the program ends' : null
    if (step === 'startApp') return startFails ? 'no image' : null
    if (step === 'takeSnapshot') return copy === 'fails' ? 'no archive holds the files' : null
    if (step !== 'restoreFiles') return null
    if (away) this.reach()
    return restoreFails === release ? 'the disk is full' : away && !this.isOpen ? 'it is cut off' : null
  }
}

const pausing: StepName[] = [
  'prepareRelease',
  'installDependencies',
  'placeFiles',
  'startRelease',
  'passHealthGate',
  'stopApp',
]

/** Deploys of applications that run, on scripted hosts. Call it once at the top level of a test file. */
export function deployKit() {
  const plans = new Map<string, Plan>()
  const started = new Map<string, Release[]>()
  const copies = { now: 0, most: 0 }
  const note = (release: Release) => void started.set(release.appId, [...(started.get(release.appId) ?? []), release])
  const pass = async (step: StepName, release: Release, signal: AbortSignal) => {
    if (step === 'startRelease') note(release)
    await plans.get(release.appId)?.pass(`${step} ${release.number}`, signal)
  }
  const pauses = pausing.map(step => [step, (release: Release, signal: AbortSignal) => pass(step, release, signal)])

  const kit = laneKit({
    before: {
      ...Object.fromEntries(pauses),
      async passHealthGate(release, signal) {
        await pass('passHealthGate', release, signal)
        const by = plans.get(release.appId)?.ends()
        const app = (await kit).hostHas(release.appId)
        if (by === 'removal') app.removeContainer(release.number)
        if (by === 'engine') app.takeDown()
      },
      startApp: async release => note(release),
      async takeSnapshot(release, signal) {
        copies.most = Math.max(copies.most, ++copies.now)
        await pass('takeSnapshot', release, signal).finally(() => copies.now--)
      },
    },
    trouble: ({ appId, number }, step) => plans.get(appId)?.trouble(number, step),
    answersAtOnce: ({ appId }) => plans.get(appId)?.behaviour.answersAtOnce ?? false,
    installs: ({ appId, number }) => number > 1 && plans.get(appId)?.behaviour.install !== undefined,
  })

  return kit.then(base => {
    const { db, lanes, make, run } = base
    const before = new Map<string, number>()
    let created: Promise<unknown> = Promise.resolve()

    /** An application whose first release serves. */
    async function running(changes: Partial<AppConfigFile> = {}): Promise<AppRow> {
      // One at a time: all tests start concurrently, and each creation locks the hosts.
      const made = created.then(async () => {
        const user = await make.user()
        return { user, ...(await make.app(user.id, changes)) }
      })
      created = made.catch(() => {})
      const { user, app, operationId } = await made
      await lanes.wake(app.id, user.id)
      const end = await run.ended(operationId)
      if (end.state !== 'success') throw new Error(`created: ${end.code} ${end.message}`)
      before.set(app.id, base.steps(app.id).length)
      return app
    }

    /** Queues a deploy as a webhook does and wakes the lane. `first` happens before that. */
    async function push(
      app: App,
      request: Partial<DeployRequest> = {},
      first: (id: string) => PromiseLike<unknown> = async () => {},
    ) {
      const usualPush = { trigger: 'webhook' as const, cloneUrl: 'https://git.example.org/a.git', branch: 'main' }
      const ids = {
        appId: app.id,
        ownerId: app.owner_id,
        actor: app.owner_id,
        revision: randomBytes(20).toString('hex'),
      }
      const queued = await transaction(db, trx => queueDeploy(trx, { ...usualPush, ...ids, ...request }))
      if (!queued) throw new Error('not queued')
      await first(queued.operationId)
      await lanes.wake(app.id, app.owner_id)
      return {
        ...queued,
        end: () => run.ended(queued.operationId),
        deployment: async () => (await findDeploymentByOperation(db, queued.operationId)) as DeploymentRow,
      }
    }

    /** Requests a snapshot as a person does and wakes the lane. */
    async function snapshot({ id: appId, owner_id: ownerId }: App) {
      const request = { appId, ownerId, actor: ownerId, origin: 'manual', plans: plansOfAccounts } as const
      const { operation_id: operationId } = await queueSnapshot(db, request)
      await lanes.wake(appId, ownerId)
      return {
        operationId,
        end: () => run.ended(operationId),
        row: async () => (await findSnapshotOf(db, operationId)) as SnapshotRow,
      }
    }

    /** Requests a restore of a good snapshot and wakes the lane. */
    async function restore({ id: appId, owner_id: ownerId }: App, { id: version, name }: SnapshotRow) {
      const { id: operationId } = await queueRestore(db, { appId, actor: ownerId, name, version })
      await lanes.wake(appId, ownerId)
      return {
        operationId,
        end: () => run.ended(operationId),
        deployment: async () => (await findDeploymentByOperation(db, operationId)) as DeploymentRow,
      }
    }

    return {
      ...base,
      running,
      push,
      snapshot,
      restore,
      behave(app: App, behaviour: Behaviour): Plan {
        const plan = new Plan(behaviour)
        plans.set(app.id, plan)
        return plan
      },
      /** Steps of the host since the application ran, once there are `count`. */
      async steps(app: App, count: number): Promise<string[]> {
        const done = () => base.steps(app.id).slice(before.get(app.id))
        for (const end = Date.now() + 30_000; done().length < count && Date.now() < end; ) await sleep(20)
        return done()
      },
      /** Number of snapshots that are being copied, and its max. */
      copies,
      programs: (app: App) => started.get(app.id) ?? [],
      events: async ({ id }: DeploymentRow): Promise<string[]> =>
        (await db('deployment_events').where({ deployment_id: id }).orderBy('id')).map(event => event.state),
    }
  })
}
