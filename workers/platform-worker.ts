import { setMaxListeners } from 'node:events'
import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { blobUpkeep } from '../activities/blob-upkeep.ts'
import { databaseRecords } from '../activities/database-records.ts'
import { domainSteps } from '../activities/domains/domain-steps.ts'
import { downgradeRecords } from '../activities/downgrade-records.ts'
import type { Edge } from '../activities/edge/port.ts'
import { edgeActivities } from '../activities/edge-routes.ts'
import { hosted } from '../activities/failures.ts'
import { openMailer } from '../activities/mail/select.ts'
import type { ObjectStore } from '../activities/objects/port.ts'
import { recordActivities } from '../activities/records.ts'
import { localSteps } from '../activities/steps/local-steps.ts'
import { sendAccounts } from '../api/network/analytics-client.ts'
import type { Db } from '../db/database.ts'
import { type Machine, thisMachine } from '../lib/machine.ts'
import type { Config } from '../policy/config.ts'
import { analyticsKey } from '../policy/keys.ts'
import { type UpkeepTimes, upkeepTimes } from '../policy/objects/blob-upkeep.ts'
import type { Lanes } from '../workflows/client.ts'
import { platformQueue } from '../workflows/ids.ts'
import { plansOf } from './adapters/plans.ts'
import { withCrashPoints } from './crash-points.ts'
import { domainWork } from './domains/domain-work.ts'
import { ownCertificates } from './domains/own-certificates.ts'
import { type AccountOptions, keepAccountsKnown } from './loops/analytics-accounts.ts'
import { takeAutomaticSnapshots } from './loops/automatic-snapshots.ts'
import { keepSchedules } from './loops/blob-schedules.ts'
import { renewCertificates } from './loops/certificate-renewals.ts'
import { requestDrills } from './loops/database-drills.ts'
import { DomainRounds } from './loops/domain-rounds.ts'
import { sendMails } from './loops/mail-sender.ts'
import { mailedCodes } from './loops/mailed-codes.ts'
import { actOnPlanEnds } from './loops/plan-ends.ts'
import { keepPlatformRows } from './loops/platform-names.ts'
import { runRelay } from './loops/relay.ts'
import { keepRoutes } from './loops/route-keeper.ts'
import { syncRoute } from './loops/route-table.ts'
import { runSweep } from './loops/sweep.ts'
import { temporalDomains } from './temporal/domains.ts'
import { temporalDowngrades } from './temporal/downgrades.ts'
import { startWorker, workflowCode } from './temporal/temporal-worker.ts'

/** How the accounts of applications reach the process `analytics`; null where nothing is counted. */
const accountsSender = ({ analytics, masterKey }: Config): AccountOptions['send'] =>
  analytics.isOn
    ? accounts => sendAccounts(`http://127.0.0.1:${analytics.port}`, analyticsKey(masterKey), accounts)
    : null

export interface PlatformParts {
  config: Config
  log: Logger
  db: Db
  client: Client
  lanes: Lanes
  databaseLanes: Lanes
  edge: Edge
  store: ObjectStore
  machine?: Machine
  /** Path of a built workflow bundle; default: the one next to the compiled code. */
  workflowBundle?: string
  /** How long upkeep of blob storage leaves things alone. */
  times?: UpkeepTimes
}

/** Runs workflows, records and routes on the platform's queue, and the worker's loops. */
export async function startPlatformWorker({
  config,
  log,
  db,
  client,
  lanes,
  databaseLanes,
  edge,
  store,
  machine = thisMachine(),
  workflowBundle,
  times = upkeepTimes,
}: PlatformParts) {
  const ending = new AbortController()
  setMaxListeners(0, ending.signal) // one for each loop
  const plans = plansOf(config)
  const downgrades = temporalDowngrades(client, config)
  const domains = temporalDomains(client, config)
  const { parts, answers, platformNames, startNameServer } = await domainWork(config, db)
  const nameServer = await startNameServer(log)
  const ownFiles = ownCertificates(config.edge.tls?.files ?? null, log)
  const loops = [
    runRelay({ db, client, lanes, databaseLanes, downgrades, domains, log }, ending.signal),
    keepPlatformRows(
      {
        ...{ db, domains, names: platformNames, authority: parts.authority?.name ?? null },
        ...{ ownCertificates: ownFiles, log },
      },
      ending.signal,
    ),
    actOnPlanEnds({ db, lanes, databaseLanes, plans, log }, ending.signal),
    runSweep({ db, log, keys: config.sealKeys, retention: config.retention }, ending.signal),
    renewCertificates({ db, keys: config.sealKeys, log }, ending.signal),
    keepSchedules({ client, queuePrefix: config.queuePrefix, isEnabled: config.blob.upkeep, log }, ending.signal),
    keepAccountsKnown({ db, send: accountsSender(config), log }, ending.signal),
    takeAutomaticSnapshots({ db, lanes, databaseLanes, plans, log }, ending.signal),
    keepRoutes(
      {
        ...{ db, edge, databaseUrl: config.databaseUrl, appsDomain: config.appsDomain, machine, log },
        edgeName: config.edge.place.name,
        domains: new DomainRounds({
          ...{ db, edge, answers, keys: config.sealKeys, appsDomain: config.appsDomain, ownCertificates: ownFiles },
        }),
      },
      ending.signal,
    ),
    requestDrills(
      {
        ...{ db, databaseLanes, log, everyDays: config.databases.drillDays },
        diskMbPer256Mb: config.host.diskMbPer256Mb,
      },
      ending.signal,
    ),
    sendMails(
      {
        db,
        mailer: withCrashPoints('mailer', openMailer(config.mail)),
        from: config.mail.from,
        databaseUrl: config.databaseUrl,
        log,
        unqueued: mailedCodes(config.masterKey),
      },
      ending.signal,
    ),
  ]
  const routing = { db, edge, appsDomain: config.appsDomain, machine }
  const routes = edgeActivities(edge, db, { appsDomain: config.appsDomain, machine })
  const records = recordActivities({
    db,
    plans,
    switchRoute: routes.switchRoute,
    routeNow: appId => syncRoute(routing, appId),
    appsDomain: config.appsDomain,
    diskMbPer256Mb: config.host.diskMbPer256Mb,
  })
  const worker = await startWorker(config, log, {
    ...workflowCode(workflowBundle),
    taskQueue: platformQueue(config.queuePrefix),
    activities: {
      ...localSteps({
        ...withCrashPoints('records', records),
        ...withCrashPoints('records', databaseRecords({ db, plans, ports: config.databases.ports })),
        ...downgradeRecords(db, plans),
        ...routes,
      }),
      ...hosted(withCrashPoints('domains', domainSteps(parts))),
      ...hosted(withCrashPoints('upkeep', blobUpkeep(db, withCrashPoints('store', store), times))),
    },
    maxCachedWorkflows: 200,
  })
  return {
    ended: worker.ended,
    async stop() {
      ending.abort()
      await worker.stop()
      await Promise.all([...loops, nameServer?.stop()])
    },
  }
}
