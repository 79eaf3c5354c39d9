import { statfs } from 'node:fs/promises'
import type { Command } from 'commander'
import { resolvesNames } from '../api/v2/databases/database-address.ts'
import { countMails } from '../db/accounts/mails.ts'
import type { Db } from '../db/database.ts'
import { findHost, listHosts } from '../db/hosts/hosts.ts'
import { currentRole } from '../db/process-role.ts'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'
import { mailWay } from '../policy/mail/settings.ts'
import { isFrozen } from '../workers/supervisor/process-record.ts'
import { runningProcesses } from '../workers/supervisor/supervisor.ts'
import { runningSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import { databaseNameFindings } from './databases/database-names.ts'
import { drillFinding } from './databases/drills.ts'
import { databaseFindings } from './databases/offer.ts'
import { hostAndPort, listens } from './doctor/addresses.ts'
import { aiFindings } from './doctor/ai-upstreams.ts'
import { buildFindings } from './doctor/builds.ts'
import { checkedAppsFinding } from './doctor/checked-apps.ts'
import { engineFindings } from './doctor/engine.ts'
import {
  addressFinding,
  diskFinding,
  type Finding,
  findingsView,
  loginFinding,
  mailFinding,
  nameFinding,
  processFinding,
  protectionFindings,
  reportOf,
} from './doctor/findings.ts'
import { bySupervisor, isElsewhere, isFurtherHost, type Manner, mannerOf } from './doctor/manner.ts'
import { edgeNameFindings, routeFinding } from './doctor/route-state.ts'
import { clientWire, databaseWire, temporalWire } from './doctor/wires.ts'
import { withInstallation } from './installation/database.ts'
import { type Installation, loadInstallation } from './installation/installation.ts'
import { storedSegments } from './ops/stored-segments.ts'
import { systemContainer } from './secrets/outside-verdicts.ts'
import { findProgram, isRoot } from './services/system-packages.ts'

const help = `
Each line shows the state of one part. A "!" marks what needs attention, the line below says what to do, and the exit code is 1.
With Docker Compose, run it in the container with the most access:  docker compose exec host node dist/cli/main.js doctor`

export function doctorCommand(program: Command): void {
  program
    .command('doctor')
    .option('--json', 'as one JSON object')
    .addHelpText('after', help)
    .action(async ({ json }: { json?: boolean }) => {
      const installation = loadInstallation(process.env)
      const findings = await examine(installation, mannerOf(installation))
      console.log(json ? JSON.stringify(findingsView(findings), null, 2) : reportOf(findings))
      if (findings.some(({ remedy }) => remedy)) process.exitCode = 1
    })
}

async function examine(installation: Installation, manner: Manner): Promise<Finding[]> {
  const { config, inContainers, dataDir, runFolder } = installation
  const machine = [
    { name: 'node', state: process.version },
    ...(inContainers ? [] : [await nginxFinding(config.edge.nginx), rootFinding()]),
    ...(await engineFindings(config.host.dockerHost, { mayBeHidden: inContainers && !isRoot() })),
    diskFinding(dataDir, await freeBytes(dataDir)),
    nameFinding(config),
    clientWire(config),
    temporalWire(config),
    databaseWire(config),
    ...(await aiFindings(installation)),
  ]
  if (inContainers) return [...machine, ...(await partFindings(installation, manner))]
  const supervisor = runningSupervisor(runFolder)
  const isSupervised = supervisor !== null
  const living = runningProcesses(runFolder)
  const stopped = [...(supervisor ? [supervisor] : []), ...living].filter(isFrozen)
  const names = living.map(({ name }) => name).sort()
  const processes = processFinding(names, installation.external, isSupervised, stopped, {
    analytics: config.analytics.isOn,
    toyModel: installation.runsToyModel,
  })
  // While Berth is stopped every part would report the same.
  return [...machine, processes, ...(isSupervised ? await partFindings(installation, manner) : [])]
}

async function partFindings(installation: Installation, manner: Manner): Promise<Finding[]> {
  return [
    ...(await addressFindings(installation, manner)),
    ...(await routeFindings(installation, manner)),
    ...(await storedFindings(installation, manner)),
  ]
}

async function nginxFinding(named: string | null): Promise<Finding> {
  const path = named ?? findProgram('nginx', process.env.PATH)
  if (!path) return { name: 'nginx', state: 'IS MISSING', remedy: `${bySupervisor.start} installs it, or says how to` }
  const version = await runProcess(path, ['-v'], { env: systemEnvironment }).catch(() => null)
  if (version) return { name: 'nginx', state: `${version.stderr.trim().split('\n')[0]} (${path})` }
  const state = `${path} DOES NOT RUN`
  if (named) return { name: 'nginx', state, remedy: 'set NGINX to the path of a working nginx, or remove the setting' }
  return { name: 'nginx', state, remedy: `see why: ${path} -v` }
}

function rootFinding(): Finding {
  if (isRoot()) return { name: 'running as', state: 'root' }
  return { name: 'running as', state: 'an ordinary user: this command sees only what that user may see' }
}

function freeBytes(folder: string): Promise<number | null> {
  return statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => null,
  )
}

/** Every part that listens, at the addresses that the other parts use for it. */
function addressFindings({ config, external, inContainers }: Installation, manner: Manner): Promise<Finding[]> {
  const { bind, ports, edge, objectStore, temporalUiUrl } = config
  const own = (address: string, port: number) =>
    `${address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address}:${port}`
  const settingIf = (setting: string, isGiven: boolean) => (isGiven && !inContainers ? setting : undefined)
  const wanted: [name: string, addresses: string[], part: string, setting?: string][] = [
    ['database', [hostAndPort(config.databaseUrl, 5432)], 'postgres', settingIf('DATABASE_URL', external.postgres)],
    ['temporal', [config.temporalAddress], 'temporal', settingIf('TEMPORAL_ADDRESS', external.temporal)],
  ]
  if (objectStore.kind === 's3')
    wanted.push(['object store', [hostAndPort(objectStore.endpoint)], inContainers ? 'objects' : 'object-store'])
  // A further host has neither API nor proxy.
  if (!isFurtherHost({ config })) {
    if (temporalUiUrl)
      wanted.push(['temporal ui', [hostAndPort(temporalUiUrl)], inContainers ? 'temporal-ui' : 'temporal'])
    wanted.push(['api', Object.values(ports).map(port => own(bind, port)), 'api'])
    const edgePorts = edge.tls ? [edge.port, edge.tls.port] : [edge.port]
    wanted.push(['proxy', edgePorts.map(port => own(edge.bind, port)), 'proxy'])
  }
  return Promise.all(
    wanted.map(async ([name, addresses, part, setting]) => {
      const probes = await Promise.all(addresses.map(async address => ((await listens(address)) ? [] : [address])))
      const silent = probes.flat()
      return addressFinding(name, { addresses, silent, elsewhere: silent.filter(isElsewhere) }, part, manner, setting)
    }),
  )
}

/** Whether names lead to their applications; nothing while the proxy or the database is down, which has its own line. */
function routeFindings({ config }: Installation, manner: Manner): Promise<Finding[]> {
  return withInstallation(async (_, db) => [await routeFinding(db, manner, config)]).catch(() => [])
}

/** Findings from the database; a single one when it does not answer, since all would report the same. */
function storedFindings(installation: Installation, manner: Manner): Promise<Finding[]> {
  const { config } = installation
  const container = systemContainer('mail', installation)
  const way = container === null ? mailWay(config.mail) : `server unknown here: ${container}`
  const read = async (db: Db) => {
    const host = await findHost(db, config.host.id)
    const hosts = await listHosts(db)
    return [
      loginFinding(await currentRole(db)),
      mailFinding(way, await countMails(db)),
      await segmentsFinding(db, config.objectStore),
      ...protectionFindings(host, manner),
      ...buildFindings(host),
      ...databaseFindings(config.databases, hosts),
      ...(config.databases.engines.length ? await databaseNameFindings(hosts, resolvesNames()) : []),
      await drillFinding(db, config.databases.drillDays),
      ...(await checkedAppsFinding(db)),
      ...(await edgeNameFindings(db)),
    ]
  }
  const at = hostAndPort(config.databaseUrl, 5432)
  return withInstallation((_, db) => read(db)).catch(error => [
    {
      name: 'stored state',
      state: `login, mail, segments, protections and databases are unknown: ${(error as Error).message}`,
      remedy: `check the database first: ${isElsewhere(at) ? at : manner.logs('postgres')}`,
    },
  ])
}

/** Whether the rows and the segments of the object store match. */
async function segmentsFinding(db: Db, store: Installation['config']['objectStore']): Promise<Finding> {
  const name = 'stored segments'
  const state = await storedSegments(db, store).catch(error => `UNKNOWN: ${(error as Error).message}`)
  if (/UNKNOWN/.test(state)) return { name, state, remedy: 'check the object store' }
  if (/MISSING/.test(state)) return { name, state, remedy: 'berth blob verify lists them; restore them from a backup' }
  if (/UNREFERENCED/.test(state))
    return { name, state, remedy: 'berth blob verify lists them; they are not removed automatically' }
  return { name, state }
}
