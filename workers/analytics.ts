import { join } from 'node:path'
import { openAddressReader } from '../activities/analytics/addresses.ts'
import { openDuckDb } from '../activities/analytics/duckdb.ts'
import type { DayShares } from '../activities/analytics/duckdb-shares.ts'
import { expireDays } from '../activities/analytics/expired-days.ts'
import { noAnalytics } from '../api/network/analytics-client.ts'
import { loop } from '../lib/async/loop.ts'
import { MiB } from '../lib/bytes.ts'
import { analyticsKey, demandMasterKey } from '../policy/keys.ts'
import { requestShares, textParts } from '../policy/network/analytics-terms.ts'
import { type AnalyticsServerOptions, serveAnalytics } from './analytics/analytics-server.ts'
import { DayBounds } from './analytics/day-bounds.ts'
import { IntakeRounds, pauseAfter } from './analytics/intake-rounds.ts'
import { slottedAnalytics } from './analytics/question-slots.ts'
import { openLog, runUntilSignal } from './connect.ts'
import { processConfig } from './process-config.ts'

/** The process `analytics`: counts the requests that the proxy has logged, and answers questions about them. */
const config = processConfig(process.env)
const log = openLog(config, 'analytics')
const life = runUntilSignal(log, 12)
demandMasterKey(config)

const folder = join(config.dataDir, 'analytics')

type Counting = Pick<AnalyticsServerOptions, 'analytics' | 'state' | 'setAccounts'>

/** Counts nothing, but forgets what was counted when its time has come. */
function rest(): Counting {
  const ending = new AbortController()
  void expireDays(folder, {
    over: ending.signal,
    onError: error => log.error({ err: error }, 'days that are too old were not removed; it is tried again'),
  })
  life.onEnd(async () => ending.abort())
  return { analytics: noAnalytics, state: async () => ({ days: [] }), setAccounts() {} }
}

/** What an application, and all of an account, store of a day, where all days have `bytes`. */
function daySharesOf(bytes: number): DayShares {
  const { parts, accountParts, requestBytes } = requestShares
  const share = (textBytes: number, room: number) => ({ textBytes, requests: Math.floor(room / requestBytes) })
  return {
    ofApp: share(bytes / textParts, bytes / parts),
    ofAccount: share(bytes / accountParts, bytes / accountParts),
  }
}

/** Starts to count; its closers are registered so that the files are closed last. */
async function count(): Promise<Counting> {
  const own = [...config.domains.publicAddresses, config.host.address]
  let accounts: ReadonlyMap<string, string> = new Map()
  const engine = await openDuckDb({
    folder,
    accountOf: app => accounts.get(app),
    addresses: await openAddressReader({ ...config.addresses, own }),
    shares: daySharesOf(config.analytics.maxMb * MiB),
    onBroken: (day, error) =>
      log.error({ day, err: error }, 'the file of a day is broken: it is counted again, as far as the log goes back'),
  })
  life.onEnd(() => engine.close())
  const bounds = new DayBounds(engine, folder, config.analytics.maxMb * MiB)
  const rounds = new IntakeRounds({ engine, bounds, logFolder: join(config.dataDir, 'proxy', 'access'), log })
  const ending = new AbortController()
  let hasMore = false
  const onError = (error: unknown, what: string) => {
    log.error({ err: error }, what)
    // After a failed write the engine refuses everything: the supervisor starts another one.
    if (engine.isBroken(error)) void life.end('the engine cannot continue after an error', 1)
  }
  const round = async () => {
    hasMore = await rounds.round()
    await engine.rollUp().catch(error => onError(error, 'requests were not summed; it is tried again'))
  }
  const counting = loop(round, {
    signal: ending.signal,
    everyMs: ({ tookMs, failed }) => pauseAfter(hasMore && !failed, tookMs),
    onError: error => onError(error, 'lines of the access log were not taken in; they are tried again'),
  })
  life.onEnd(async () => {
    ending.abort()
    await counting
  })
  return {
    analytics: slottedAnalytics(engine, config.analytics.questions),
    setAccounts(sent) {
      accounts = sent
    },
    state: async () => ({ days: engine.days(), bytes: await engine.size(), behindBytes: rounds.behindBytes }),
  }
}

// A container is started even where analytics are off: it says so.
const { server } = await serveAnalytics({
  ...(config.analytics.isOn ? await count() : rest()),
  key: analyticsKey(config.masterKey),
  port: config.analytics.port,
  log,
})
life.onEnd(
  () =>
    new Promise(resolve => {
      server.close(resolve)
      server.closeAllConnections()
    }),
)
life.ready()
log.info({ isOn: config.analytics.isOn }, 'analytics ready')
