import type { Logger } from 'pino'
import { type BuildAuthorities, buildAuthorities } from '../../activities/builds/authorities.ts'
import { type ProxyAddresses, proxyAddresses } from '../../activities/firewall/proxy-addresses.ts'
import type { Db } from '../../db/database.ts'
import { recordBuildFact } from '../../db/hosts/hosts.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { type BuildFact, type BuildSettings, proxyFactWithout } from '../../policy/hosts/build-settings.ts'

export interface BuildNetworkOptions {
  settings: BuildSettings
  /** Which proxy fetches from git servers use. */
  gitProxy: BuildFact
  hostId: string
  /** The host's folder. */
  folder: string
  db: Db
  log: Logger
}

/** What builds of a host use to reach the network. */
export interface BuildNetwork {
  proxies: ProxyAddresses
  authorities: BuildAuthorities
  /** For `berth doctor` and `berth hosts list`; the row of the host gets later changes by itself. */
  facts: Record<string, BuildFact>
}

/** Looks up the proxies of builds and makes their bundle of authorities. Never rejects: what is missing is reported. */
export async function openBuildNetwork(options: BuildNetworkOptions): Promise<BuildNetwork> {
  const { settings, gitProxy, hostId, folder, db, log } = options
  const facts: Record<string, BuildFact> = {}
  function report(name: 'proxy' | 'authorities' | 'git proxy', fact: BuildFact): void {
    facts[name] = fact
    log[fact.remedy ? 'warn' : 'info'](fact, name === 'git proxy' ? name : `${name} of builds`)
    void recordBuildFact(db, hostId, name, fact).catch(ignoreError('the next start records it'))
  }
  const proxies = proxyAddresses(settings, {
    onChange: () => report('proxy', proxyFactWithout(settings, proxies.unreachable())),
    onEvicted: evicted => log.warn({ evicted }, 'proxy of builds: its name has too many addresses; these are closed'),
  })
  report('git proxy', gitProxy)
  await proxies.refresh()
  const unreachable = proxies.unreachable()
  if (!facts.proxy) report('proxy', proxyFactWithout(settings, unreachable))
  const authorities = buildAuthorities({
    files: settings.authorities,
    folder,
    report: fact => report('authorities', fact),
  })
  await authorities.bundle()
  return { proxies, authorities, facts }
}
