import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { HostUnreachable } from '../../activities/container-host.ts'
import { refusal } from '../../activities/failures.ts'
import type { Release } from '../../activities/release.ts'
import type { AppRow } from '../../db/apps.ts'
import { transaction } from '../../db/database.ts'
import { type DeploymentRow, findByOperation } from '../../db/deployments.ts'
import { type DeployRequest, queueDeploy } from '../../db/deploys.ts'
import { queueRestore } from '../../db/restores.ts'
import * as segments from '../../db/segments.ts'
import { findByOperation as findSnapshotOf, queueSnapshot, type SnapshotRow } from '../../db/snapshots.ts'
import type { AppConfigFile } from '../../policy/app-config.ts'
import { newId } from '../../policy/ids.ts'
import { defaultPlans as plansOfAccounts } from '../../policy/plans.ts'
import { laneKit } from './lane-kit.ts'
import { portOf } from './ports.ts'

type App = Pick<AppRow, 'id' | 'owner_id' | 'subdomain'>

/** What the scripted host does with one application, by step (`<activity> <release>`) or number of the release. */
interface Behaviour {
  pauseAt?: string
  /** A paused step that is cancelled ends so much later, in ms. */
  confirmMs?: number
  install?: 'fails' | 'runs'
  /** Of what is archived; another each time when left out. */
  digest?: string
  copy?: 'fails'
  unhealthy?: number
  startFails?: boolean
  /** The release whose files can never be put back. */
  restoreFails?: number
  /** Activities whose first attempt finds no engine. */
  lostIn?: Set<string>
  /** The host answers nobody who wants to go back until the plan is opened. */
  away?: boolean
}

class Plan {
  reached = new Promise<void>(resolve => {
    this.reach = resolve
  })
  opened = new Promise<void>(resolve => {
    this.open = resolve
  })
  declare reach: () => void
  declare open: () => void
  confirmedAt = 0

  constructor(readonly behaviour: Behaviour) {}

  async pass(step: string, signal = cancellationSignal()): Promise<void> {
    const [name = ''] = step.split(' ')
    if (this.behaviour.lostIn?.has(name) && activityInfo().attempt === 1) throw new HostUnreachable('no engine')
    if (this.behaviour.pauseAt !== step) return
    this.reach()
    const cancelled = new Promise(resolve => signal.addEventListener('abort', () => resolve(true), { once: true }))
    if (!(await Promise.race([this.opened, cancelled]))) return
    await sleep(this.behaviour.confirmMs ?? 0)
    this.confirmedAt = Date.now()
    throw new Error('ended')
  }
}

/** Deploys of applications that run, on scripted hosts. Call it once at the top level of a test file. */
export function deployKit() {
  const plans = new Map<string, Plan>()
  const started = new Map<string, Release[]>()
  const usual = { containerId: 'c1', code: 0, oom: false }
  const pass = async (name: string, release: Release, signal?: AbortSignal) =>
    plans.get(release.appId)?.pass(`${name} ${release.number}`, signal)
  const copies = { now: 0, most: 0 }
  const startedNow = ({ number, hostname, appId }: Release, release: Release) => {
    started.set(appId, [...(started.get(appId) ?? []), release])
    const hostPort = hostname ? portOf(appId, number) : null
    return {
      containerId: `c${number}`,
      hostPort,
      startedAt: new Date().toISOString(),
      bootId: 'b1',
      variablesVersion: 0,
    }
  }

  const kit = laneKit({
    async prepareRelease(release) {
      await pass('prepareRelease', release)
      return { needsInstall: release.number > 1 && plans.get(release.appId)?.behaviour.install !== undefined }
    },
    async installDependencies(release) {
      await pass('installDependencies', release)
      if (plans.get(release.appId)?.behaviour.install === 'fails') throw refusal('BUILD_FAILED', 'exit code 1')
    },
    async restoreFiles(release) {
      const plan = plans.get(release.appId)
      if (plan?.behaviour.restoreFails === release.number) throw refusal('ACTION_FAILED', 'the disk is broken')
      if (!plan?.behaviour.away) return
      plan.reach()
      if (!(await Promise.race([plan.opened.then(() => true), sleep(100)]))) throw new HostUnreachable('no engine')
    },
    placeFiles: release => pass('placeFiles', release).then(() => undefined),
    async startRelease(release) {
      await pass('startRelease', release)
      return startedNow(release, release)
    },
    async passHealthGate(release) {
      await pass('passHealthGate', release)
      const unhealthy = plans.get(release.appId)?.behaviour.unhealthy === release.number
      return unhealthy ? { reason: 'it ended', exit: null } : null
    },
    async stopApp(release) {
      await pass('stopApp', release)
      return { ...usual, at: new Date().toISOString() }
    },
    async startApp(release) {
      if (plans.get(release.appId)?.behaviour.startFails) throw refusal('ACTION_FAILED', 'no image')
      return startedNow(release, release)
    },
    async takeSnapshot(release, operationId) {
      const { db, places } = await kit
      return places.holding({ hostId: release.hostId, operationId }, cancellationSignal(), async signal => {
        copies.most = Math.max(copies.most, ++copies.now)
        await pass('takeSnapshot', release, signal).finally(() => copies.now--)
        const behaviour = plans.get(release.appId)?.behaviour
        if (behaviour?.copy === 'fails') throw refusal('SNAPSHOT_FAILED', 'the disk is full')
        const segmentId = await segments.draw(db)
        return { segmentId, size: 10, sha256: 'a'.repeat(64), digest: behaviour?.digest ?? newId() }
      })
    },
  })

  return kit.then(base => {
    const { db, lanes, make, run } = base
    const before = new Map<string, number>()
    let created: Promise<unknown> = Promise.resolve()

    /** An application whose first release serves. */
    async function running(changes: Partial<AppConfigFile> = {}): Promise<AppRow> {
      // One after the other: all tests begin at once, and each creation locks the hosts.
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
        deployment: async () => (await findByOperation(db, queued.operationId)) as DeploymentRow,
      }
    }

    /** Asks for a snapshot as a person does and wakes the lane. */
    async function snapshot({ id: appId, owner_id: ownerId }: App) {
      const wish = { appId, ownerId, actor: ownerId, origin: 'manual', plans: plansOfAccounts } as const
      const { operation_id: operationId } = await queueSnapshot(db, wish)
      await lanes.wake(appId, ownerId)
      return {
        operationId,
        end: () => run.ended(operationId),
        row: async () => (await findSnapshotOf(db, operationId)) as SnapshotRow,
      }
    }

    /** Asks for a restore of a good snapshot and wakes the lane. */
    async function restore({ id: appId, owner_id: ownerId }: App, { id: version, name }: SnapshotRow) {
      const { id: operationId } = await queueRestore(db, { appId, actor: ownerId, name, version })
      await lanes.wake(appId, ownerId)
      return {
        operationId,
        end: () => run.ended(operationId),
        deployment: async () => (await findByOperation(db, operationId)) as DeploymentRow,
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
      /** What the host did since the application ran, as soon as that are so many steps. */
      async steps(app: App, count: number): Promise<string[]> {
        const done = () => base.steps(app.id).slice(before.get(app.id))
        for (const end = Date.now() + 30_000; done().length < count && Date.now() < end; ) await sleep(20)
        return done()
      },
      /** How many snapshots are being copied, and were at most. */
      copies,
      programs: (app: App) => started.get(app.id) ?? [],
      events: async ({ id }: DeploymentRow): Promise<string[]> =>
        (await db('deployment_events').where({ deployment_id: id }).orderBy('id')).map(event => event.state),
    }
  })
}
