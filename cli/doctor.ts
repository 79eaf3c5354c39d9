import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import type { Command } from 'commander'
import { countMails } from '../db/accounts/mails.ts'
import type { Db } from '../db/database.ts'
import { findHost } from '../db/hosts/hosts.ts'
import { currentRole } from '../db/process-role.ts'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'
import { mailWay } from '../policy/mail/settings.ts'
import { standsStill } from '../workers/supervisor/process-record.ts'
import { livingProcesses } from '../workers/supervisor/supervisor.ts'
import { runningSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import {
  addressFinding,
  diskFinding,
  engineVersionFinding,
  type Finding,
  findingsView,
  liveRestoreFinding,
  loginFinding,
  mailFinding,
  nameFinding,
  processFinding,
  protectionFindings,
  reportOf,
} from './doctor/findings.ts'
import { bySupervisor, isElsewhere, isFurtherHost, type Manner, mannerOf } from './doctor/manner.ts'
import { routeFinding } from './doctor/route-state.ts'
import { clientWire, databaseWire, temporalWire } from './doctor/wires.ts'
import { withInstallation } from './installation/database.ts'
import { type Installation, loadInstallation } from './installation/installation.ts'
import { storedBodies } from './ops/stored-bodies.ts'
import { askedElsewhere } from './secrets/outside-verdicts.ts'
import { containersLiveOn, engineVersion } from './services/docker.ts'
import { accepts } from './services/proxy.ts'
import { findProgram, isRoot } from './services/system-packages.ts'

const help = `
Each line says how one part stands; "!" marks what needs somebody, and the line beneath says what to do. The exit code is 1 then.
In an installation with Docker Compose run it in the container that sees most:  docker compose exec host node dist/cli/main.js doctor`

export function doctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('what is on and off: protections, parts, ports, disk, versions; and what to do about it')
    .option('--json', 'as one JSON object')
    .addHelpText('after', help)
    .action(async ({ json }: { json?: boolean }) => {
      const installation = loadInstallation(process.env)
      const findings = await look(installation, mannerOf(installation))
      console.log(json ? JSON.stringify(findingsView(findings), null, 2) : reportOf(findings))
      if (findings.some(({ remedy }) => remedy)) process.exitCode = 1
    })
}

async function look(installation: Installation, manner: Manner): Promise<Finding[]> {
  const { config, inContainers, dataDir, runFolder } = installation
  const machine = [
    { name: 'node', state: process.version },
    ...(inContainers ? [] : [await nginxFinding(config.edge.nginx), rootFinding()]),
    ...(await engineFinding(installation)),
    diskFinding(dataDir, await freeBytes(dataDir)),
    nameFinding(config),
    clientWire(config),
    temporalWire(config),
    databaseWire(config),
  ]
  if (inContainers) return [...machine, ...(await partFindings(installation, manner))]
  const supervisor = runningSupervisor(runFolder)
  const isKept = supervisor !== null
  const living = livingProcesses(runFolder)
  const stopped = [...(supervisor ? [supervisor] : []), ...living].filter(standsStill)
  const names = living.map(({ name }) => name).sort()
  const processes = processFinding(names, installation.external, isKept, stopped)
  // While all of it is stopped each part would say the same.
  return [...machine, processes, ...(isKept ? await partFindings(installation, manner) : [])]
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
  if (!path) return { name: 'nginx', state: 'IS MISSING', remedy: `${bySupervisor.start} installs it, or says how` }
  const said = await runProcess(path, ['-v'], { env: systemEnvironment }).catch(() => null)
  if (said) return { name: 'nginx', state: `${said.stderr.trim().split('\n')[0]} (${path})` }
  const state = `${path} DOES NOT RUN`
  if (named) return { name: 'nginx', state, remedy: 'give NGINX the path of one that does, or take the setting out' }
  return { name: 'nginx', state, remedy: `see why: ${path} -v` }
}

function rootFinding(): Finding {
  if (isRoot()) return { name: 'running as', state: 'root' }
  return { name: 'running as', state: 'an ordinary user: this command sees what that user sees' }
}

/** In containers only the host's has the socket. */
async function engineFinding({ config, inContainers }: Installation): Promise<Finding[]> {
  const address = config.host.dockerHost
  const version = await engineVersion(address)
  const name = 'docker engine'
  if (version === null && inContainers && !isRoot()) return []
  if (version === null)
    return [
      {
        name,
        state: `DOES NOT ANSWER at ${address}`,
        remedy: 'start it: sudo systemctl start docker; or let this user in: sudo usermod -aG docker $USER',
      },
    ]
  return [
    engineVersionFinding(version, address, ioUringDisabled()),
    liveRestoreFinding(await containersLiveOn(address)),
  ]
}

function ioUringDisabled(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/io_uring_disabled', 'utf8').trim()
  } catch {
    return null
  }
}

function freeBytes(folder: string): Promise<number | null> {
  return statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => null,
  )
}

/** Everything that listens, by the addresses that the others use for it. */
function addressFindings({ config, external, inContainers }: Installation, manner: Manner): Promise<Finding[]> {
  const { bind, ports, edge, objectStore, temporalUiUrl } = config
  const own = (address: string, port: number) =>
    `${address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address}:${port}`
  const given = (setting: string, isGiven: boolean) => (isGiven && !inContainers ? setting : undefined)
  const wanted: [name: string, addresses: string[], part: string, setting?: string][] = [
    ['database', [hostAndPort(config.databaseUrl, 5432)], 'postgres', given('DATABASE_URL', external.postgres)],
    ['temporal', [config.temporalAddress], 'temporal', given('TEMPORAL_ADDRESS', external.temporal)],
  ]
  if (objectStore.kind === 's3')
    wanted.push(['object store', [hostAndPort(objectStore.endpoint)], inContainers ? 'objects' : 'object-store'])
  // It has neither API nor proxy.
  if (!isFurtherHost({ config })) {
    if (temporalUiUrl)
      wanted.push(['temporal ui', [hostAndPort(temporalUiUrl)], inContainers ? 'temporal-ui' : 'temporal'])
    wanted.push(['api', Object.values(ports).map(port => own(bind, port)), 'api'])
    wanted.push(['proxy', [own(edge.bind, edge.port)], 'proxy'])
  }
  return Promise.all(
    wanted.map(async ([name, addresses, part, setting]) => {
      const looks = await Promise.all(addresses.map(async address => ((await listens(address)) ? [] : [address])))
      const silent = looks.flat()
      return addressFinding(name, { addresses, silent, elsewhere: silent.filter(isElsewhere) }, part, manner, setting)
    }),
  )
}

function hostAndPort(url: string, usual = url.startsWith('https:') ? 443 : 80): string {
  const { hostname, port } = new URL(url)
  return `${hostname}:${port || usual}`
}

function listens(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`)
  return accepts(hostname.replace(/^\[|\]$/g, ''), Number(port)).then(
    () => true,
    () => false,
  )
}

/** Whether names lead to their applications; nothing where the proxy or the database is away, which has a line of its own. */
function routeFindings({ config }: Installation, manner: Manner): Promise<Finding[]> {
  return withInstallation(async (_, db) => [await routeFinding(db, manner, config)]).catch(() => [])
}

/** What the database knows. One line when it does not answer, since all of it would say the same. */
function storedFindings(installation: Installation, manner: Manner): Promise<Finding[]> {
  const { config } = installation
  const asked = askedElsewhere('mail', installation)
  const way = asked === null ? mailWay(config.mail) : `by which server: ${asked}`
  const read = async (db: Db) => [
    loginFinding(await currentRole(db)),
    mailFinding(way, await countMails(db)),
    await bodiesFinding(db, config.objectStore),
    ...protectionFindings(await findHost(db, config.host.id), manner),
  ]
  const at = hostAndPort(config.databaseUrl, 5432)
  return withInstallation((_, db) => read(db)).catch(error => [
    {
      name: 'what is stored',
      state: `login, mail, bodies and protections are unknown: ${(error as Error).message}`,
      remedy: `first see to the database: ${isElsewhere(at) ? at : manner.logs('postgres')}`,
    },
  ])
}

/** Whether rows and bodies of the object store fit. */
async function bodiesFinding(db: Db, store: Installation['config']['objectStore']): Promise<Finding> {
  const name = 'stored bodies'
  const state = await storedBodies(db, store).catch(error => `UNKNOWN: ${(error as Error).message}`)
  if (/UNKNOWN/.test(state)) return { name, state, remedy: 'see to the object store' }
  if (/MISSING/.test(state))
    return { name, state, remedy: 'berth blob verify names them; bring them back from a backup' }
  if (/NOTHING REFERS/.test(state))
    return { name, state, remedy: 'berth blob verify names them; nothing removes them by itself' }
  return { name, state }
}
