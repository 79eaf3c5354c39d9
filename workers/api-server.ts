import type { Server } from 'node:http'
import { archives } from '../activities/archives/process.ts'
import { siteverifyCaptcha } from '../activities/captcha/siteverify.ts'
import { domainRecords } from '../activities/dns/domain-records.ts'
import { resolverDns } from '../activities/dns/resolver.ts'
import { openObjectStore } from '../activities/objects/select.ts'
import { surfaces } from '../api/app.ts'
import { hostCall } from '../api/hosts/host-call.ts'
import { httpHostFiles } from '../api/hosts/host-files.ts'
import { httpHostReader } from '../api/hosts/host-reader.ts'
import { hostLive } from '../api/hosts/live-events.ts'
import { LiveFeeds } from '../api/hosts/live-feeds.ts'
import { NetworkRates } from '../api/hosts/network-rates.ts'
import { RealtimeLeases } from '../api/hosts/realtime-leases.ts'
import { StreamAccess } from '../api/hosts/stream-access.ts'
import { loopback, plainAddress } from '../api/http/address.ts'
import { drain, hardenedServer } from '../api/http/server.ts'
import { httpAnalytics, noAnalytics } from '../api/network/analytics-client.ts'
import { RememberedAnswers } from '../api/network/remembered-answers.ts'
import { authenticator } from '../api/pipeline/authenticate.ts'
import { openCountries } from '../api/pipeline/countries.ts'
import { EarlierCredentials } from '../api/pipeline/earlier-credentials.ts'
import { Limiter } from '../api/pipeline/limiter.ts'
import { RowNotifications } from '../api/pipeline/row-notifications.ts'
import { malformedS3 } from '../api/s3/answers.ts'
import { s3Credentials } from '../api/s3/credentials.ts'
import type { Services } from '../api/services.ts'
import { healthChecks } from '../api/status/health.ts'
import { ServiceStatus } from '../api/status/service-status.ts'
import { Outcomes } from '../api/v2/apps/outcomes.ts'
import { resolvesNames } from '../api/v2/databases/database-address.ts'
import { DeploySourceCache } from '../api/v2/git/deploy-sources.ts'
import { openDatabase } from '../db/database.ts'
import { readDeploySources } from '../db/deploys/deploy-sources.ts'
import { pushes } from '../db/git/pushes.ts'
import { listHosts } from '../db/hosts/hosts.ts'
import { Notifications } from '../db/notifications.ts'
import { SegmentIds } from '../db/objects/segment-ids.ts'
import { StorageQuota } from '../db/objects/storage-quota.ts'
import { AddressSet } from '../lib/addresses.ts'
import { FairSlots } from '../lib/async/fair-slots.ts'
import { loop } from '../lib/async/loop.ts'
import { TtlCache } from '../lib/async/ttl-cache.ts'
import { checksumsReady } from '../lib/checksums.ts'
import { connectionCaps } from '../policy/accounts/address-limits.ts'
import { cachedSeconds } from '../policy/cached-answers.ts'
import type { Config } from '../policy/config.ts'
import { applicationRange } from '../policy/hosts/networks.ts'
import { analyticsKey, demandMasterKey } from '../policy/keys.ts'
import { wholeLogs } from '../policy/limits.ts'
import { roundSeconds } from '../policy/rounds.ts'
import { apiDrainSeconds, chatGraceSeconds, commandTimeouts, databaseTimeouts } from '../policy/timeouts.ts'
import { openChatCalls } from './adapters/chat-calls.ts'
import { edgeAnswers } from './adapters/edge-answers.ts'
import { openGitProvider } from './adapters/git-provider.ts'
import { plansOf } from './adapters/plans.ts'
import { openLog, openTemporal, runUntilSignal } from './connect.ts'
import { withCrashPoints } from './crash-points.ts'
import { demandSameInstallationSoon } from './same-installation.ts'
import { temporalDomains } from './temporal/domains.ts'
import { temporalDowngrades } from './temporal/downgrades.ts'
import { sharedWakes } from './temporal/lane-wakes.ts'
import { temporalDatabaseLanes, temporalLanes } from './temporal/lanes.ts'
import { refusalLog } from './temporal/temporal-connection.ts'

/** Time of a call to Temporal within a request, in ms: with a pause of its retries still shorter than a look at the status. */
const temporalDeadlineMs = 2000

/** Composes the API from its real parts, listens on the five ports, and drains on SIGTERM. */
export async function serveApi(config: Config): Promise<void> {
  const log = openLog(config, 'api')
  const life = runUntilSignal(log, apiDrainSeconds + 2)
  const { databaseUrl: url, masterKey, earlierKeyChecks, databasePool } = config
  demandMasterKey(config)

  const { requestStatementMs: statementTimeoutMs } = databaseTimeouts
  const db = openDatabase({ url, pool: databasePool, applicationName: 'berth-api', statementTimeoutMs })
  const notifications = new Notifications(url, ['operations', 'deployments', 'deploy-sources', 'access', 'apps'])
  const client = openTemporal(config, temporalDeadlineMs)
  const plans = plansOf(config)
  const plainStore = await openObjectStore(config.objectStore, { mayBeUnreachable: true })
  const ending = new AbortController()
  await demandSameInstallationSoon({ db, config, log, store: plainStore, folders: [config.dataDir] }, ending.signal)
  const store = withCrashPoints('store', plainStore)
  const zips = withCrashPoints('archives', archives())
  const platform = [...loopback, applicationRange]
  const unlimited = new AddressSet([...platform, ...config.trustedProxies])
  let inside = new AddressSet(platform)
  const pingWorkflows = () => client.connection.workflowService.getSystemInfo({})

  const askHost = hostCall(db, masterKey)
  const authenticate = authenticator({ db, masterKey, earlierKeyChecks, plans, processes: config.apiProcesses })
  const rates = new NetworkRates()
  const services: Services = {
    db: withCrashPoints('db', db),
    config,
    plans,
    store,
    segmentIds: new SegmentIds(db),
    quota: withCrashPoints('quota', new StorageQuota(db)),
    log,
    archives: zips,
    authenticate,
    findS3Credential: s3Credentials({ db, masterKey, plans, processes: config.apiProcesses }),
    limiter: new Limiter(db),
    lanes: sharedWakes(withCrashPoints('lanes', temporalLanes(client, { queuePrefix: config.queuePrefix }))),
    databaseLanes: sharedWakes(
      withCrashPoints('database-lanes', temporalDatabaseLanes(client, { queuePrefix: config.queuePrefix })),
    ),
    resolvesName: resolvesNames(),
    downgrades: temporalDowngrades(client, config),
    domains: temporalDomains(client, config),
    domainRecords: domainRecords(resolverDns(config.domains.dnsServers), config),
    dnsRecords: new TtlCache(cachedSeconds.dnsRecords),
    outcomes: new Outcomes(notifications),
    deploymentNotifications: new RowNotifications(notifications, 'deployments'),
    logSlots: new FairSlots(wholeLogs),
    pushes: withCrashPoints('pushes', pushes),
    timeouts: commandTimeouts,
    hosts: httpHostReader(db, askHost),
    files: httpHostFiles(askHost),
    live: new LiveFeeds(hostLive(askHost), rates),
    leases: new RealtimeLeases(db, config.rateLimitScale),
    access: new StreamAccess({ authenticate, db }, notifications),
    sources: new DeploySourceCache(notifications, appId => readDeploySources(db, config.sealKeys, appId)),
    earlier: new EarlierCredentials(db),
    accountSnapshots: new TtlCache(cachedSeconds.accountSnapshots),
    blobUsage: new TtlCache(cachedSeconds.blobStats),
    metrics: new TtlCache(cachedSeconds.metrics),
    gitProvider: await openGitProvider(config),
    rates,
    analytics: config.analytics.isOn
      ? httpAnalytics(`http://127.0.0.1:${config.analytics.port}`, analyticsKey(masterKey))
      : noAnalytics,
    networkAnswers: new RememberedAnswers(),
    chatCalls: openChatCalls(config, db, log),
    service: new ServiceStatus(healthChecks({ db, store, pingEdge: () => edgeAnswers(config.edge), pingWorkflows })),
    isInside: address => inside.has(address),
    isBlocked: await openCountries(config.blockedCountries, config.addresses.countryDatabase),
    asksCaptcha: await openCountries(config.captcha?.countries ?? [], config.addresses.countryDatabase),
    captcha: config.captcha && siteverifyCaptcha(config.captcha),
  }

  await checksumsReady
  void notifications.open()
  const repeat = (seconds: number, work: () => Promise<unknown>) =>
    void loop(work, { signal: ending.signal, everyMs: seconds * 1000, onError: () => {} })
  repeat(10, async () => {
    inside = new AddressSet([...platform, ...(await listHosts(db)).map(host => host.address)])
  })
  repeat(roundSeconds.liveStreams, () => services.leases.renew())
  repeat(roundSeconds.refusals, refusalLog(config, log, pingWorkflows))

  const apps = surfaces(services)
  const limits = {
    connections: connectionCaps.inAll,
    connectionsPerAddress: Math.ceil(connectionCaps.perAddress * config.rateLimitScale),
    unlimited: (address: string) => unlimited.has(plainAddress(address)),
  }
  const servers = await Promise.all(
    (['base', 'blob', 's3', 'files', 'public'] as const).map(name =>
      listening(
        hardenedServer(apps[name].callback(), limits, name === 's3' ? malformedS3 : undefined),
        config.ports[name],
        config.bind,
      ),
    ),
  )

  // Run in reverse: requests end first, then what they depend on.
  life.onEnd(() => db.destroy())
  life.onEnd(() => client.connection.close())
  life.onEnd(() => notifications.close())
  life.onEnd(() => zips.close())
  life.onEnd(() => services.quota.close())
  life.onEnd(() => Promise.all([drain(servers, apiDrainSeconds), services.chatCalls.end(chatGraceSeconds)]))
  life.onEnd(async () => ending.abort())
  life.onEnd(async () => services.access.leave())
  life.ready()
  log.info({ ports: config.ports }, 'api ready')
}

function listening(server: Server, port: number, address: string): Promise<Server> {
  return new Promise((resolve, reject) => server.once('error', reject).listen(port, address, () => resolve(server)))
}
