import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { AppHostActivities } from '../../activities/app-host.ts'
import type { AppSnapshotActivities } from '../../activities/app-snapshots.ts'
import { decide, decideServing } from '../../activities/releases/decision.ts'
import type { Release } from '../../activities/releases/release.ts'
import { removeApp } from '../../db/apps/app-creation.ts'
import { type Db, transaction } from '../../db/database.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import { claimNextOperationFor } from '../../db/operations/operation-claims.ts'
import { enqueueOperation, finishOperation } from '../../db/operations/operations.ts'
import { queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { defaultPlans } from '../../policy/accounts/plans.ts'
import { asActivity } from '../kit/hosts/activity-context.ts'
import { rows } from '../kit/rows/rows.ts'
import type { Standing, Trouble } from './host-troubles.ts'

export type HostActivities = AppHostActivities & AppSnapshotActivities

/** A container host as lanes see it. Each scene has its own. */
export interface HostUnderContract {
  /** Its name in the rows of its applications. */
  id: string
  activities: HostActivities
  /** Stores the files of a release, which may have dependencies to install; resolves to the id of their segment. */
  store(brought: { release: number; installs: boolean }): Promise<string>
  /** Gives the application a disk with the files of this release. */
  lay(release: Release): Promise<void>
  /** What goes wrong with the application from now on; null = nothing. */
  suffer(appId: string, trouble: Trouble | null): Promise<void>
  standing(appId: string): Promise<Standing>
}

export type SceneKind = 'create' | 'start' | 'stop' | 'restart' | 'deploy' | 'delete' | 'snapshot'

export interface SceneTerms {
  /** Has a port and an address. */
  web?: boolean
  /** Release 1 runs; a creation has none yet. */
  running?: boolean
  /** The operation's release has dependencies to install. */
  installs?: boolean
}

/** Attempt, step and run of the request; defaults to the lane's own. */
interface Asking {
  run?: string
  step?: number
  attempt?: number
  signal?: AbortSignal
}

export type Scene = Awaited<ReturnType<typeof sceneOn>>

export const decisions = { appsDomain: 'x.test', diskMbPer256Mb: 10 }

export type MakeScene = (kind: SceneKind, terms?: SceneTerms) => Promise<Scene>

/**
 * An operation of this kind that run `lane` holds since its step 1, at a host. A creation and a deploy bring a release, 1 or 2;
 * otherwise release 1 serves.
 */
export async function sceneOn(db: Db, host: HostUnderContract, kind: SceneKind, terms: SceneTerms = {}) {
  const { web = true, running = true, installs = false } = terms
  const make = rows(db)
  const user = await make.user()
  const changes = { start: 'node index.js', ...(!web && { subdomain: null }) }
  const number = kind === 'create' ? 1 : 2
  const segmentId = await host.store({ release: number, installs })
  const creation = await make.app(user.id, changes, kind === 'create' ? { segmentId } : {})
  const { app } = creation
  await db('apps').where({ id: app.id }).update({ host_id: host.id })

  const request = { targetId: app.id, ownerId: user.id, actor: user.id }
  const claim = (run: string) => claimNextOperationFor(db, { type: 'app', id: app.id }, { run, step: 1 }, [])

  async function ask<T>(work: (activities: HostActivities) => Promise<T>, asking: Asking = {}): Promise<T> {
    const { run = 'lane', step = 5, attempt = 1, signal } = asking
    return asActivity({ run, step }, () => work(host.activities), signal, attempt)
  }

  async function serve(): Promise<void> {
    await db('operations').where({ id: creation.operationId }).update({ state: 'success' })
    await db('apps').where({ id: app.id }).update({ release: 1 })
    const { id } = await enqueueOperation(db, { ...request, kind: 'start' })
    await claim('before')
    const { release } = (await decide(db, decisions, id))!
    await host.lay(release)
    if (running) await ask(({ startApp }) => startApp(release, { mustStand: false }), { run: 'before' })
    await finishOperation(db, id, { state: 'success' })
  }

  async function begin(): Promise<string> {
    if (kind === 'create') return creation.operationId
    await serve()
    if (kind === 'snapshot') {
      const asked = { appId: app.id, ownerId: user.id, actor: user.id, origin: 'manual', plans: defaultPlans } as const
      return (await queueSnapshot(db, asked)).operation_id
    }
    if (kind !== 'deploy') return (await enqueueOperation(db, { ...request, kind })).id
    const archive = { segmentId, bytes: 10, sha256: 'a'.repeat(64) }
    const asked = { ...request, appId: app.id, trigger: 'upload', revision: 'a'.repeat(40), archive } as const
    return (await transaction(db, trx => queueDeploy(trx, asked)))!.operationId
  }

  const operationId = await begin()
  await claim('lane')
  const { release } = (await decide(db, decisions, operationId))!
  const before = (await decideServing(db, decisions, operationId))!.release

  return {
    db,
    host,
    app,
    operationId,
    /** The operation's release, as its lane sends it. */
    release,
    /** The release that serves when the operation starts. */
    before,
    ask,
    /** The failure of a step: its type in the lane, and whether it is not retried. `cancelled` for a cancelled one, null for a success. */
    async failure(work: (activities: HostActivities) => Promise<unknown>, asking: Asking = {}) {
      try {
        await ask(work, asking)
        return null
      } catch (error) {
        if (error instanceof CancelledFailure) return { type: 'cancelled', final: true, message: '', details: [] }
        if (!(error instanceof ApplicationFailure)) throw error
        return {
          type: error.type,
          final: error.nonRetryable === true,
          message: error.message,
          details: error.details ?? [],
        }
      }
    },
    standing: () => host.standing(app.id),
    suffer: (trouble: Trouble | null) => host.suffer(app.id, trouble),
    /** The operation succeeds; its release serves. */
    async end(): Promise<void> {
      await finishOperation(db, operationId, { state: 'success' })
      await db('apps').where({ id: app.id }).update({ release: release.number })
    },
    /** The application is deleted, and the operation has ended with it. */
    async remove(): Promise<void> {
      await finishOperation(db, operationId, { state: 'success' })
      await transaction(db, trx => removeApp(trx, app.id))
    },
  }
}
