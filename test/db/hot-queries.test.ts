import test from 'ava'
import { undoUnconfirmed } from '../../db/acceptance.ts'
import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { findUserByEmail, findUserByKeyHash, findUserBySession } from '../../db/accounts/accounts.ts'
import { listOverdueDowngrades } from '../../db/accounts/downgrades.ts'
import { takeMail } from '../../db/accounts/mails.ts'
import { queueEndedNotices, queueEndNotices, queueSuspensions } from '../../db/accounts/plan-ends.ts'
import { admitCall, countAndAdmitCall, settleCall } from '../../db/ai/ai-calls.ts'
import { listUsage, usedToday } from '../../db/ai/ai-usage.ts'
import { changesSince } from '../../db/apps/app-changes.ts'
import { createApp, removeApp } from '../../db/apps/app-creation.ts'
import { listMetrics } from '../../db/apps/app-metrics.ts'
import * as apps from '../../db/apps/apps.ts'
import { BoundedAudit, listAudit, recordAudit } from '../../db/audit.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { databaseChangesSince } from '../../db/databases/database-changes.ts'
import { removeDatabase, reserveMoreMemory } from '../../db/databases/database-creation.ts'
import { listDatabaseMetrics } from '../../db/databases/database-metrics.ts'
import * as databases from '../../db/databases/databases.ts'
import { listDeployments } from '../../db/deploys/deployment-history.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import { findCertificates } from '../../db/domains/certificates.ts'
import { releaseDomain } from '../../db/domains/domains.ts'
import { listDeliveries, recordDelivery } from '../../db/git/deliveries.ts'
import { type PushDelivery, pushes } from '../../db/git/pushes.ts'
import { ranInEarlierBoot } from '../../db/hosts/host-boots.ts'
import { chores } from '../../db/housekeeping.ts'
import { reclaimIdleUploads, removeExpiredObjects } from '../../db/objects/object-ends.ts'
import { listObjects } from '../../db/objects/object-lists.ts'
import { findObject, openObject, removeObject } from '../../db/objects/objects.ts'
import * as segments from '../../db/objects/segments.ts'
import { readDatabaseFacts } from '../../db/operations/database-facts.ts'
import {
  claimNextOperationFor,
  holdClaim,
  isClaimCurrent,
  readClaimFindings,
  showRestart,
} from '../../db/operations/operation-claims.ts'
import { findOperationOfRun, readOperationFacts } from '../../db/operations/operation-facts.ts'
import * as operations from '../../db/operations/operations.ts'
import { listOperations, readOperationStory } from '../../db/operations/operator.ts'
import {
  listDueForSnapshot,
  listStuckSnapshots,
  postponeSnapshots,
  recordSnapshotTry,
} from '../../db/snapshots/automatic-snapshots.ts'
import { findLastRestore } from '../../db/snapshots/restores.ts'
import { queueSnapshotWarnings } from '../../db/snapshots/snapshot-warnings.ts'
import { findSnapshotDigest, listSnapshots, listSnapshotsOfOwner, queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { defaultPlans as plans } from '../../policy/accounts/plans.ts'
import { endNotices } from '../../policy/accounts/suspension.ts'
import { newId } from '../../policy/ids.ts'
import { upkeepTimes } from '../../policy/objects/blob-upkeep.ts'
import { retentionSettings } from '../../policy/retention.ts'
import { accountOf, fillMany, idOf } from '../kit/rows/many-rows.ts'
import { plansOf, pretendLarger } from '../kit/rows/plans-of.ts'
import { configFile, plansOfMemory, rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase({ ownServer: true })

/** Filled with so many, with statistics of fifty times as many: a million operations and a million objects. */
const sizes = { apps: 2500, operations: 20_000, objects: 20_000 }
const times = 50

/** Nothing may read these from end to end. */
const grows = [
  ...['operations', 'deployments', 'deployment_events', 'deployment_logs', 'snapshots', 'webhook_deliveries'],
  ...['objects', 'object_parts', 'segments', 'app_metrics', 'audit', 'mails', 'idempotency_keys', 'sessions'],
  ...['database_metrics', 'domain_events'],
]
/** Nor these, of which there are thousands, but for rounds that say so. */
const thousands = [
  'ai_days',
  'apps',
  'app_changes',
  'databases',
  'database_changes',
  'users',
  'api_keys',
  'certificates',
]

/** In the planner's unit. What reads all of a million rows costs over 10,000, also through an index. */
const mostCost = 5000

const [appId, ownerId, databaseId] = [idOf('app', 7), accountOf(7), idOf('database', 7)]
const hosted = { type: 'database', id: databaseId } as const
const claim = { run: 'run', step: 1 }
const name = { ownerId, bucket: 'public', key: 'folder7/file7' } as const
const list = { ownerId, buckets: ['public', 'private'], prefix: '', limit: 1000 } as const
const found = { delivery: { provider: 'github', event: 'push', deliveryId: 'd', branch: 'main', commit: 'c' } } as const

/** What a round reads that follows another one. */
async function readAgain(db: Db, hostId: string | null) {
  await changesSince(db, (await changesSince(db, null, hostId)).mark, hostId)
}

async function readDatabasesAgain(db: Db) {
  await databaseChangesSince(db, (await databaseChangesSince(db, null, 'h1')).mark, 'h1')
}

const requests = { key: `budget/${ownerId}`, allow: 9, perSeconds: 60, blockSeconds: 60, code: 'RATE_LIMIT' } as const
const aiCall = () => ({
  ...{ id: newId(), userId: ownerId, keyId: 'k', tokens: { prompt: 1, answer: 9 }, slots: 9, pacingSeconds: 0 },
  budgets: { account: 1_000_000, key: 1_000_000, platform: 1_000_000_000 },
})

interface Hot {
  run(db: Db): Promise<unknown>
  /** Where a round looks at every application or account, and its cost says so. */
  readsAll?: boolean
}

const hot: Record<string, Hot | Hot['run']> = {
  'a key is looked up': db => findUserByKeyHash(db, Buffer.alloc(32)),
  'a session is looked up': db => findUserBySession(db, 'id', ownerId),
  'an account is looked up by its address': db => findUserByEmail(db, 'many-11@example.org'),
  'an application is read': db => apps.findApp(db, ownerId, appId),
  'an application is not found': db => operations.failedCreation(db, ownerId, 'f'.repeat(24)),
  'an account’s applications are listed': db => apps.listApps(db, ownerId),
  'memory of an account is added up': db => usedMemoryMb(db, ownerId),
  'deployments are listed': db => listDeployments(db, appId, { limit: 20 }),
  'the next page of deployments is listed': db =>
    listDeployments(db, appId, { limit: 20, after: idOf('deployment', 7) }),
  'snapshots are listed': db => listSnapshots(db, appId),
  'snapshots of an account are listed': db => listSnapshotsOfOwner(db, ownerId),
  'metrics are read': db => listMetrics(db, appId),
  'deliveries are listed': db => listDeliveries(db, appId),
  'the last restore is looked up': db => findLastRestore(db, appId),
  'a deploy is queued': db =>
    queueDeploy(db, { appId, ownerId, actor: ownerId, trigger: 'app', revision: 'f'.repeat(40), branch: 'main' }),
  'an upload is queued': async db => {
    const archive = { segmentId: await segments.allocateSegment(db), bytes: 10, sha256: 'a'.repeat(64) }
    await queueDeploy(db, { appId, ownerId, actor: ownerId, trigger: 'upload', revision: 'f'.repeat(40), archive })
  },
  'a push is stored': async db => {
    const push: PushDelivery = {
      ...{ webhookId: null, appId, ownerId, limitScale: 1, restart: true, deploymentId: newId(), operationId: newId() },
      push: { kind: 'push', branch: 'main', commit: 'f'.repeat(40), cloneUrl: 'https://git.example.org/ana/shop.git' },
      delivery: { ...found.delivery, verdict: { kind: 'ignored', status: 202, reason: '' } },
      reply: { status: 200, aroundPlace: ['place ', ''] },
    }
    await pushes.store(db, push, performance.now() + 60_000)
    await pushes.find(db, push.operationId)
    await pushes.confirm(db, push, push.operationId)
  },
  'a delivery that deploys nothing is stored': async db => {
    const delivery = { ...found.delivery, verdict: { kind: 'ignored', status: 202, reason: '' } } as const
    await recordDelivery(db, { webhookId: null, appId, ownerId, limitScale: 1 }, delivery, { status: 202, text: '' })
  },
  'the audit record of an account is listed': db =>
    listAudit(db, ownerId, { days: 30, limit: 51, before: '5000000', resources: null }),
  'entries of an account are limited': async db => {
    const audit = new BoundedAudit({ objects: 1, command: 1 })
    const entry = { accountId: ownerId, actor: ownerId, resource: 'o', result: 'success', operationId: null }
    for (const action of ['objects.upload', 'objects.delete']) await recordAudit(db, { ...entry, action })
    await audit.sweep(db)
  },
  'the digest of a restored archive is read': db => findSnapshotDigest(db, idOf('operation', 8)),
  'a snapshot is queued': db =>
    queueSnapshot(db, { appId: idOf('app', 8), ownerId: accountOf(8), actor: 'platform', origin: 'manual', plans }),
  'a deletion is queued': db =>
    operations.enqueueDeletion(db, { targetId: appId, kind: 'delete', ownerId, actor: ownerId }),
  'an operation is claimed': db => claimNextOperationFor(db, { type: 'app', id: appId }, claim, []),
  'what a claim finds': db => readClaimFindings(db, idOf('operation', 7)),
  'a restart is shown': db => showRestart(db, idOf('operation', 7), claim),
  'a start is recorded': db =>
    apps.recordStarted(db, appId, {
      ...{
        release: 1,
        containerId: 'c1',
        hostPort: 20_008,
        hostAddress: '127.1.0.1',
        bootId: 'boot',
        startedAt: new Date(),
      },
    }),
  'a restart compares where its application is published': db =>
    apps.hasPlace(db, appId, {
      release: 1,
      containerId: 'c1',
      hostPort: 20_008,
      bootId: 'boot',
      startedAt: new Date(),
    }),
  'a claim is held': db => holdClaim(db, idOf('operation', 7), claim, { appId, kind: 'deploy' }),
  'a claim is asked for': db => isClaimCurrent(db, idOf('operation', 7), claim),
  'what a step is decided from is read': db => readOperationFacts(db, idOf('operation', 7)),
  'the operation of a run is looked up': db => findOperationOfRun(db, { appId, deploymentId: null, run: 'run' }),
  'a lane asks what shall end': db => operations.findOperationsToCancel(db, { type: 'app', id: appId }),
  'the host watch reads what has changed': db => readAgain(db, 'h1'),
  'the route keeper reads what has changed': db => readAgain(db, null),
  'the route keeper asks which applications switch': operations.switchingSubdomains,
  'the host watch asks whether an application is busy': db => operations.isBusy(db, appId),
  'the host watch asks whether an application was removed': db => operations.wasRemoved(db, appId),
  'the host watch asks whether versions change': db => operations.changesRelease(db, appId),
  'an operation ends': db => operations.finishOperation(db, idOf('operation', 7), { state: 'success' }),
  'what waits is ended': db => operations.endQueuedOperations(db, { type: 'app', id: appId }),
  'the relay looks who waits': db =>
    operations.listWaitingTargets(db, { queuedSeconds: 1, runningSeconds: 5, except: [appId] }),
  'what was forgotten is undone': db => undoUnconfirmed(db, 600),
  'steps to a lower plan that are due': db => listOverdueDowngrades(db, 5),
  'the route of one application': db => apps.listServingApps(db, appId),
  'a port changes hands': db => apps.clearPortOfOthers(db, appId, 20_008, '127.1.0.1'),
  'whether an application is of an earlier boot': db => ranInEarlierBoot(db, appId),
  'mails are taken': db => takeMail(db, { firstWaitSeconds: 1, maxWaitSeconds: 2 } as never),
  'ends of plans are announced': db => queueEndNotices(db, plans, endNotices),
  'ended plans are announced': db => queueEndedNotices(db, plans),
  'what ran on ended plans is stopped': db => queueSuspensions(db, plans, 300),
  'operations are listed': db => listOperations(db, { limit: 20 }),
  'operations that failed are listed': db => listOperations(db, { state: 'error', limit: 20 }),
  'operations that wait are listed': db => listOperations(db, { state: 'queued', limit: 20 }),
  'an operation is explained': db => readOperationStory(db, idOf('operation', 7), 20),
  'objects are listed': db => listObjects(db, list),
  'folders are listed': db => listObjects(db, { ...list, delimiter: '/' }),
  'an object is found': db => findObject(db, name),
  'an object is opened': db => openObject(db, name),
  'a range of an object is opened': db => openObject(db, name, { bytes: { from: 5, to: 9 } }),
  'an object is removed': db => removeObject(db, name),
  'expired objects are ended': db => removeExpiredObjects(db, 'f'.repeat(32)),
  'idle uploads are given up': db => reclaimIdleUploads(db, 'f'.repeat(32), 3600),
  'bodies that may be swept': db => segments.listSweepableSegments(db, upkeepTimes),
  'an application is removed': db => removeApp(db, idOf('app', 9)),
  'an application is created': {
    async run(db) {
      const segmentId = await segments.allocateSegment(db)
      const archive = { segmentId, archiveSha256: 'a'.repeat(64), archiveBytes: 10 }
      await createApp(db, { ownerId, config: configFile(), ...archive, plans: plansOfMemory(100_000), actor: ownerId })
    },
    readsAll: true, // what each host has reserved
  },
  'whose daily snapshot is due': async db => {
    const { later } = await listDueForSnapshot(db, { plans, everySeconds: 86_400, retrySeconds: 3600 })
    await postponeSnapshots(db, [...later, { id: appId, was: '2000-01-01', until: '2000-01-02' }])
    await recordSnapshotTry(db, 'app', appId, 1)
  },
  'which daily snapshots are stuck': db => listStuckSnapshots(db, 86_400),
  'whose daily snapshot of a database is due': async db => {
    const request = { plans, everySeconds: 86_400, retrySeconds: 3600 }
    const { later } = await listDueForSnapshot(db, request, 'database')
    await postponeSnapshots(db, [...later, { id: databaseId, was: '2000-01-01', until: '2000-01-02' }], 'database')
    await recordSnapshotTry(db, 'database', databaseId, 1)
  },
  'which daily snapshots of databases are stuck': db => listStuckSnapshots(db, 86_400, 'database'),
  'whose databases have had no good snapshot for long': db => queueSnapshotWarnings(db, plans, 'database'),
  'whose applications have had no good snapshot for long': db => queueSnapshotWarnings(db, plans, 'app'),
  'a database is read': db => databases.findDatabase(db, ownerId, databaseId),
  'an account’s databases are listed': db => databases.listDatabases(db, ownerId),
  'metrics of a database are read': db => listDatabaseMetrics(db, databaseId),
  'an operation of a database is claimed': db => claimNextOperationFor(db, hosted, claim, []),
  'a claim on a database is held': db => holdClaim(db, idOf('operation', 7), claim, { databaseId, kind: 'resize' }),
  'what a step of a database is decided from is read': db => readDatabaseFacts(db, idOf('operation', 7)),
  'a lane of a database asks what shall end': db => operations.findOperationsToCancel(db, hosted),
  'the host watch asks whether a database is busy': db => operations.isBusy(db, databaseId, 'database'),
  'the host watch reads which databases have changed': readDatabasesAgain,
  'memory is reserved for a larger database': {
    async run(db) {
      const more = { database: hosted, ramMb: 1024, plans: plansOfMemory(100_000), diskMbPer256Mb: 10 }
      await db.transaction(trx => reserveMoreMemory(trx, more))
      await db.transaction(trx => databases.recordDatabaseMemory(trx, databaseId, { ramMb: 1024, cpu: 1 }))
    },
    readsAll: true, // what each host has reserved
  },
  'a database is removed': db => removeDatabase(db, idOf('database', 9)),
  'a database is created': { run: db => rows(db).database(ownerId, { plans: plansOfMemory(100_000) }), readsAll: true },
  'the databases of a host': { run: db => databases.listDatabasesOfHost(db, 'h1'), readsAll: true },
  'the routes of all': { run: db => apps.listServingApps(db), readsAll: true },
  'the applications of a host': { run: db => apps.listAppsOfHost(db, 'h1'), readsAll: true },
  'the certificates of a name are read': db => findCertificates(db, 'many-7.example.org'),
  'a name is released': db => db.transaction(trx => releaseDomain(trx, 'many-9.example.org', 'released')),
  'the call of a language model is counted and admitted': db => countAndAdmitCall(db, aiCall(), [requests]),
  'a call is admitted': db => admitCall(db, aiCall()),
  'a call is settled': async db => {
    const call = aiCall()
    await admitCall(db, call)
    await settleCall(db, call, { prompt: 1, completion: 1 })
  },
  'usage of models is read': db => listUsage(db, { userId: ownerId, days: 90 }),
  'tokens of today are read': db => usedToday(db, [`user/${ownerId}`, 'key/k']),
  ...Object.fromEntries(
    chores(retentionSettings({})).map(({ name, sweep }) => [`housekeeping: ${name}`, sweep] as const),
  ),
}

test.before('an installation that seems large', async t => {
  t.timeout(180_000)
  const { db, url } = await database
  const filler = openDatabase({ url, pool: 1, statementTimeoutMs: 120_000 })
  await fillMany(filler, sizes).finally(() => filler.destroy())
  await db.raw(`insert into ai_budgets (subject, day) select 'user/' || id, current_date from users`)
  await db.raw(
    `insert into ai_days (user_id, key_id, day) select id, '', current_date - n from users, generate_series(0, 9) as d (n)`,
  )
  await db.raw(
    `insert into domains (hostname, owner_id, proved_at) select 'many-' || n || '.example.org', :ownerId, now() from generate_series(1, 5000) n`,
    { ownerId },
  )
  await db.raw(
    `insert into certificates (id, hostname, state, authority, chain, key_sealed, not_after)
     select md5(hostname), hostname, 'current', 'a', 'PEM', 'key', now() + interval '90 days' from domains`,
  )
  await db.raw(
    `insert into domain_events (hostname, at, text)
     select hostname, now() - interval '40 days', 'event ' || n from domains, generate_series(1, 4) n`,
  )
  const database_images = JSON.stringify({ 'berth/redis:8': 'ready' })
  await db('hosts').update({ last_seen_at: db.raw(`now() + interval '1 hour'`), database_images })
  await pretendLarger(db, grows, times)
  await pretendLarger(db, thousands, 4)
})

for (const [what, query] of Object.entries(hot)) {
  const { run, readsAll = false } = typeof query === 'function' ? { run: query } : query
  test.serial(`at a million rows: ${what}`, async t => {
    const { url } = await database
    const plans = await plansOf(url, run)
    t.true(plans.length > 0)
    for (const { text, scanned, cost } of plans) {
      const wrong = scanned.filter(table => grows.includes(table) || (!readsAll && thousands.includes(table)))
      t.deepEqual(wrong, [], text)
      if (!readsAll) t.true(cost < mostCost, `${cost} for ${text}`)
    }
  })
}

test.serial('a statement inside a function is judged too', async t => {
  const { db, url } = await database
  await db.raw(`create function reads_all() returns bigint language plpgsql as $$
    begin return (select count(*) from operations where message = 'x'); end $$`)
  const plans = await plansOf(url, db => db.raw('select reads_all()'))
  t.true(plans.some(({ scanned }) => scanned.includes('operations')))
})

test('every statement is in the list', t => {
  t.is(Object.keys(hot).length, 132)
})
