import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../activities/volumes/folder.ts'
import { type Chore, chores, tidyRows } from '../../db/housekeeping.ts'
import { claimNextOperationFor } from '../../db/operations/operation-claims.ts'
import * as operations from '../../db/operations/operations.ts'
import { listDueForSnapshot } from '../../db/snapshots/automatic-snapshots.ts'
import { thisMachine } from '../../lib/machine.ts'
import { defaultPlans as plans } from '../../policy/accounts/plans.ts'
import { newAppId } from '../../policy/ids.ts'
import { retentionSettings } from '../../policy/retention.ts'
import { accountOf } from '../../test/kit/rows/many-rows.ts'
import { reconcile } from '../../workers/host/host-comparison.ts'
import { HostRounds } from '../../workers/host/host-rounds.ts'
import { planEndsOnce } from '../../workers/loops/plan-ends.ts'
import { LaneRelay } from '../../workers/loops/relay.ts'
import { RouteRounds } from '../../workers/loops/route-rounds.ts'
import { syncRoutes } from '../../workers/loops/route-table.ts'
import { sendAtPace } from '../kit/deliveries.ts'
import { zipOf } from '../kit/zip.ts'
import { bootId, hostId, type Installation, volumesOf, webhookSecret } from './installation.ts'

/** Something whose time is measured, in one installation and in another. */
export interface Step {
  name: string
  /** Does what is not measured and resolves to what is, which may resolve to what is tidied up after it. */
  prepare(at: Installation, n: number): Promise<() => Promise<unknown>>
  after?(at: Installation): Promise<unknown>
  /** It looks at much, and is measured less often. */
  heavy?: boolean
}

const log = pino({ level: 'silent' })
const ownerId = accountOf(1)
const appsDomain = 'apps.localhost'
const lanes = { wake: async () => {} }

async function answered(url: string, init: RequestInit = {}): Promise<string> {
  const answer = await fetch(url, init)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${init.method ?? 'GET'} ${url} answered ${answer.status}: ${text}`)
  return text
}

const reading = (name: string, pathOf: (at: Installation, n: number) => string): Step => ({
  name,
  prepare: async (at, n) => () => answered(pathOf(at, n), { headers: { authorization: at.key } }),
})

const appOf = ({ apps }: Installation, n: number): string => apps[n % apps.length]!

/** Nothing waits after a step that something did not wait before it. */
async function endWaiting({ db }: Installation): Promise<void> {
  await db('operations')
    .whereIn('state', ['accepting', 'queued', 'running'])
    .update({ state: 'cancelled', finished_at: db.fn.now() })
}

const create: Step = {
  name: 'POST /v2/apps',
  async prepare(at) {
    const subdomain = `bench-${randomBytes(5).toString('hex')}`
    const config = `DISPLAY_NAME=bench\nMAIN=index.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=${subdomain}\n`
    const index = `require('node:http').createServer((_, answer) => answer.end('hello')).listen(process.env.PORT)\n`
    const form = new FormData()
    form.append('file', new Blob([await zipOf({ 'berth.app': config, 'index.js': index })]), 'app.zip')
    return () => answered(`${at.api.url}/v2/apps`, { method: 'POST', headers: { authorization: at.key }, body: form })
  },
  async after(at) {
    await endWaiting(at)
    await at.db('apps').where({ owner_id: ownerId }).whereNotIn('id', at.apps).delete()
  },
}

const push: Step = {
  name: 'a push',
  prepare: async (at, n) => {
    const url = `${at.api.url}/v2/git/webhook/${at.webhooks[n % at.webhooks.length]}`
    return () => sendAtPace([{ url, secret: webhookSecret }], 1, 1)
  },
  after: endWaiting,
}

const claim: Step = {
  name: 'a claim',
  async prepare(at, n) {
    const targetId = appOf(at, n)
    await operations.enqueueOperation(at.db, { targetId, kind: 'restart', ownerId, actor: ownerId })
    return async () => {
      if (!(await claimNextOperationFor(at.db, { type: 'app', id: targetId }, { run: newAppId(), step: 1 }, [])))
        throw new Error('Nothing to claim.')
    }
  },
  after: endWaiting,
}

/** The wake-ups of ten applications were lost. */
const relayRound: Step = {
  name: 'relay, a round',
  async prepare(at) {
    for (const targetId of at.apps)
      await operations.enqueueOperation(at.db, { targetId, kind: 'restart', ownerId, actor: ownerId })
    await at
      .db('operations')
      .where({ state: 'queued' })
      .update({ created_at: at.db.raw(`now() - interval '2 seconds'`) })
    const relay = new LaneRelay({ db: at.db, client: undefined as never, lanes, databaseLanes: lanes, log })
    return async () => {
      const woken = await relay.round()
      if (woken !== at.apps.length) throw new Error(`${woken} lanes were woken.`)
    }
  },
  after: endWaiting,
}

/** What a host and its rounds are made of, in this process. */
function watched({ db, engineUrl, folder }: Installation) {
  const makeRootfs = () => Promise.reject(new Error('No image is made.'))
  const boot = { id: bootId, settle: async () => bootId }
  const engine = dockerHost({ dockerHost: engineUrl, makeRootfs })
  const volumes = folderVolumes(volumesOf(folder))
  return { db, engine, volumes, hostId, locks: appLocks(), boot, log }
}

/** Something that goes on from round to round, for each installation. */
function keptFor<T>(make: (at: Installation) => Promise<T>): (at: Installation) => Promise<T> {
  const kept = new Map<Installation, Promise<T>>()
  return at => {
    const one = kept.get(at) ?? make(at)
    kept.set(at, one)
    return one
  }
}

const changedApps = 3

/** Rows that a round looks at change, in nothing that there is to do about. */
async function touch({ db, apps }: Installation): Promise<void> {
  await db('apps')
    .whereIn('id', apps.slice(0, changedApps))
    .update({ started_at: db.raw(`started_at + interval '1 second'`) })
}

const hostRounds = keptFor(async at => {
  const rounds = new HostRounds({ ...watched(at), everythingSeconds: 86_400 })
  rounds.follow(true)
  await rounds.round()
  return rounds
})

const hostWatch: Step = {
  name: 'host watch round',
  async prepare(at) {
    const rounds = await hostRounds(at)
    await touch(at)
    for (const id of at.apps.slice(changedApps, 2 * changedApps)) rounds.see(id) // events of the engine
    return async () => {
      if (await rounds.round()) throw new Error('Everything was compared.')
    }
  },
}

const fullHostWatch: Step = {
  name: 'full host watch',
  heavy: true,
  prepare: async at => () => reconcile(watched(at)),
}

const tablesOf = ({ db, proxy }: Installation) => ({ db, edge: proxy.edge, appsDomain, machine: thisMachine() })

const routeRounds = keptFor(async at => {
  const rounds = new RouteRounds({ ...tablesOf(at), everythingSeconds: 86_400 })
  await rounds.round()
  return rounds
})

const routes: Step = {
  name: 'routes round',
  async prepare(at) {
    const rounds = await routeRounds(at)
    await touch(at)
    return async () => {
      const { whole, refused } = await rounds.round()
      if (whole || refused.length > 0) throw new Error('Everything was compared, or the proxy refused a route.')
    }
  },
}

const fullRoutes: Step = {
  name: 'full routes round',
  heavy: true,
  async prepare(at) {
    return async () => {
      const { refused } = await syncRoutes(tablesOf(at))
      if (refused.length > 0) throw new Error(`The proxy refused ${refused.length} routes.`)
    }
  },
}

/** A worker keeps its chores: some go on where they were. */
const choresOf = new Map<Installation, Chore[]>()

const housekeeping: Step = {
  name: 'housekeeping, a round',
  heavy: true,
  async prepare(at) {
    const all = choresOf.get(at) ?? chores(retentionSettings({}))
    choresOf.set(at, all)
    return () =>
      tidyRows(at.db, all, (_, error) => {
        throw error
      })
  },
}

const planEnds: Step = {
  name: 'ends of plans, a round',
  prepare:
    async ({ db }) =>
    () =>
      planEndsOnce({ db, lanes, databaseLanes: lanes, plans, log }),
}

const snapshotsDue: Step = {
  name: 'daily snapshots',
  prepare:
    async ({ db }) =>
    () =>
      listDueForSnapshot(db, { plans, everySeconds: 86_400, retrySeconds: 3600 }),
}

export const steps: readonly Step[] = [
  create,
  reading('GET an application', (at, n) => `${at.api.url}/v2/apps/${appOf(at, n)}`),
  reading('GET all of an account', at => `${at.api.url}/v2/users/me`),
  reading('GET a list of 1,000 objects', at => `${at.api.blobUrl}/v1/objects`),
  push,
  claim,
  relayRound,
  planEnds,
  snapshotsDue,
  hostWatch,
  fullHostWatch,
  routes,
  fullRoutes,
  housekeeping,
]
