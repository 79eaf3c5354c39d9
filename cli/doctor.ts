import { statfs } from 'node:fs/promises'
import type { Command } from 'commander'
import { countMails } from '../db/mails.ts'
import { currentRole, type Role } from '../db/process-role.ts'
import { runProcess, systemEnvironment } from '../lib/child-process.ts'
import type { Config } from '../policy/config.ts'
import { mailWay } from '../policy/mail/settings.ts'
import { plainHttpSettings } from '../policy/plain-http.ts'
import { settingsWithinSite } from '../policy/registrable-domains.ts'
import { livingProcesses } from '../workers/supervisor.ts'
import { withInstallation } from './database.ts'
import { type Installation, loadInstallation } from './installation.ts'
import { answers, defaultDockerHost } from './parts/docker.ts'
import { accepts } from './parts/proxy.ts'
import { findProgram, isRoot } from './parts/system-packages.ts'
import { hostProtections } from './protections.ts'
import { routeState } from './route-state.ts'
import { storedBodies } from './stored-bodies.ts'
import { columns } from './terminal.ts'
import { databaseWire, temporalWire } from './wires.ts'

const lowDiskGb = 5

type Finding = readonly [name: string, state: string]

export function doctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('what is on and off: protections, parts, ports, disk, versions')
    .action(async () => {
      const installation = loadInstallation(process.env)
      const findings: Finding[] = [
        ['node', process.version],
        ['nginx', await version('nginx', ['-v'])],
        ['docker engine', await dockerState()],
        ['running as', isRoot() ? 'root' : 'an ordinary user: loop-mounted quotas and firewall rules are off'],
        ['disk', await diskState(installation.dataDir)],
        [
          'processes',
          livingProcesses(installation.runFolder)
            .map(({ name }) => name)
            .join(', ') || 'none',
        ],
        ...(await portStates(installation)),
        ['names', namesState(installation)],
        ['way to clients', wayState(installation.config)],
        ['routes', await routes()],
        ['way to temporal', temporalWire(installation.config)],
        ['way to the database', databaseWire(installation.config)],
        ['database login', await databaseLogin()],
        ['mail', await mailState(installation)],
        ['stored bodies', await bodyState(installation)],
        ...(await protections()),
      ]
      console.log(columns(findings, ''))
    })
}

async function version(program: string, args: string[]): Promise<string> {
  const path = findProgram(program, process.env.PATH)
  if (!path) return 'missing'
  const { stdout, stderr } = await runProcess(path, args, { env: systemEnvironment }).catch(error => ({
    stdout: '',
    stderr: String(error.message),
  }))
  return `${(stdout || stderr).trim().split('\n')[0]} (${path})`
}

async function dockerState(): Promise<string> {
  const address = process.env.DOCKER_HOST ?? defaultDockerHost
  return `${(await answers(address)) ? 'answers' : 'DOES NOT ANSWER'} at ${address}`
}

async function diskState(folder: string): Promise<string> {
  const { bavail, bsize } = await statfs(folder)
  const freeGb = (bavail * bsize) / 1e9
  return `${freeGb.toFixed(1)} GB free at ${folder}${freeGb < lowDiskGb ? ' - LOW' : ''}`
}

async function portStates({ ports, config }: Installation): Promise<Finding[]> {
  const wanted = Object.entries(ports).filter(([name]) => name !== 'S3RVER_PORT' || config.objectStore.kind === 's3')
  return Promise.all(
    wanted.map(async ([name, port]) => {
      const open = await accepts('127.0.0.1', port).then(
        () => 'open',
        () => 'closed',
      )
      return [name.toLowerCase().replaceAll('_', ' '), `${port} ${open}`] as const
    }),
  )
}

/** Whether pages of strangers are of another site than the API. */
function namesState({ config }: Installation): string {
  const within = settingsWithinSite(config)
  if (within.length === 0) return 'applications and files are of another site than the API'
  return `${within.join(', ')}: of one registrable domain with BASE_URL - SEE docs/installation.md`
}

/** Whether somebody between here and the clients can read along. */
export function wayState(config: Config): string {
  const plain = plainHttpSettings(config)
  if (plain.length === 0) return 'https, or this machine alone'
  return `PLAIN HTTP (${plain.join(', ')}): everybody on the way reads keys and codes - SEE docs/installation.md`
}

/** Whether the names of applications lead to them. */
function routes(): Promise<string> {
  return withInstallation(({ config }, db) => routeState(db, config)).catch(
    error => `unknown: ${(error as Error).message}`,
  )
}

/** What the processes may do to the database, beyond rows. */
function databaseLogin(): Promise<string> {
  return withInstallation((_, db) => currentRole(db)).then(loginState, error => `unknown: ${(error as Error).message}`)
}

/** A login that may do more than the processes need is told, with what to do. */
export function loginState({ name, superuser, owner }: Role): string {
  if (!superuser && !owner) return `${name}: changes rows only`
  const what = superuser ? 'IS A SUPERUSER' : 'OWNS THE SCHEMA'
  return `${name} ${what}: whoever gets into a process has the whole server's rights. Give DATABASE_URL a plain login and DATABASE_OWNER_URL this one`
}

/** Where mail goes, and how much of it does not get there. */
async function mailState({ config }: Installation): Promise<string> {
  const held = await withInstallation((_, db) => countMails(db)).then(
    ({ queued, failed }) => `${queued} waiting, ${failed} failed${failed ? ' - SEE berth mail list' : ''}`,
    () => 'waiting mail unknown',
  )
  return `${mailWay(config.mail)}; ${held}`
}

/** Whether rows and bodies of the object store fit. */
function bodyState({ config }: Installation): Promise<string> {
  return withInstallation((_, db) => storedBodies(db, config.objectStore)).catch(
    error => `unknown: ${(error as Error).message}`,
  )
}

function protections(): Promise<Finding[]> {
  return withInstallation((installation, db) => hostProtections(db, installation.config.host.id)).catch(error => [
    ['protections', `unknown: ${(error as Error).message}`],
  ])
}
