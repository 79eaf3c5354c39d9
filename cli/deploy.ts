import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Db } from '../db/database.ts'
import { type DeploymentRow, findDeploymentByOperation, readLog } from '../db/deploys/deployments.ts'
import { archiveFolder } from './client/archive-folder.ts'
import {
  addressOf,
  appLogs,
  deploymentLog,
  findApp,
  Refused,
  type Target,
  type UploadedApp,
  uploadArchive,
} from './client/client.ts'
import { DeployFailed, followApp } from './client/follow-app.ts'
import { loginFor } from './client/logins.ts'
import { withInstallation } from './installation/database.ts'
import type { Installation } from './installation/installation.ts'
import { type Say, sayOnStderr, step } from './terminal/terminal.ts'

const tailLines = 40
const recordMs = 15_000
const recordEveryMs = 200

interface DeployOptions {
  key?: string
  url?: string
  app?: string
  wait: string
  cache: boolean
  json?: boolean
}

/** The platform on this machine, with its first key. */
export function localTarget({ config, secrets }: Installation): Target {
  return { baseUrl: config.urls.base, apiKey: secrets.apiKey ?? '', edgeUrl: config.urls.edge, isHere: true }
}

/** A deployed application, and the deployment that did it. */
export interface Deployed {
  app: UploadedApp
  deploymentId: string | null
}

export interface DeployTerms {
  /** Id or subdomain of an application that gets a new version; without it a new one is created. */
  to?: string | undefined
  /** Max time to follow the deployment. */
  seconds: number
  noCache?: boolean
}

/** Zips a folder, uploads the zip, and follows the deployment until the application answers, with a line for each step. Throws `Refused` or `DeployFailed`. */
export async function deploy(
  target: Target,
  source: string,
  { to, seconds, noCache = false }: DeployTerms,
  say: Say,
): Promise<Deployed> {
  const present = to === undefined ? undefined : await findApp(target, to)
  const folder = await mkdtemp(join(tmpdir(), 'berth-deploy-'))
  try {
    const path = resolve(source)
    const stats = await stat(path).catch(() => {
      throw new Error(`There is no file or folder ${path}.`)
    })
    const archive = stats.isDirectory() ? join(folder, `${basename(path)}.zip`) : path
    if (archive !== path) say(`Zipped ${await archiveFolder(path, archive)} files of ${basename(path)}`)
    const { app, operationId } = await uploadArchive(target, archive, { app: present, noCache }).catch(withAdvice)
    say(present ? `Committed to ${app.id}; deploying it` : `Uploaded as ${app.id}; starting it`)
    const following = { seconds, operationId, isUpdate: present !== undefined }
    const deploymentId = await step(say, `deploying ${app.name}`, () => followApp(target, app, following, say)).catch(
      async error => {
        if (!(error instanceof DeployFailed)) throw error
        const last = present && error.code ? 'The version before was not replaced.' : ''
        throw await withLogs(error, target, app.id, operationId, last)
      },
    )
    return { app, deploymentId }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** A taken subdomain is mostly the caller's own, of an earlier deploy. */
function withAdvice(error: unknown): never {
  if (!(error instanceof Refused) || error.code !== 'SUBDOMAIN_TAKEN') throw error
  throw new Refused(error.code, `${error.message} For a new version of your application add: --app <its subdomain>`)
}

/** An application that could not be created has been deleted with its log, which the database of its own machine still has. */
const logOf = (target: Target, appId: string, deploymentId: string | null): Promise<string> =>
  deploymentId ? deploymentLog(target, appId, deploymentId).catch(() => '') : Promise.resolve('')

/** The failure with the last lines of the deployment's log and of the program's output, and a `last` line of its own. */
async function withLogs(
  { message, code, deploymentId }: DeployFailed,
  target: Target,
  appId: string,
  operationId: string | null,
  last: string,
): Promise<DeployFailed> {
  const outcome = target.isHere && operationId ? await deploymentEnd(operationId) : null
  const log = outcome?.log ?? (await logOf(target, appId, deploymentId))
  const reason = code ? '' : [outcome?.code, outcome?.message].filter(Boolean).join(': ')
  const outputs = [log, await appLogs(target, appId).catch(() => '')].map(tail)
  const lines = [message, ...new Set(outputs), reason, last].filter(Boolean)
  return new DeployFailed(lines.join('\n'), code ?? outcome?.code ?? null, deploymentId ?? outcome?.id ?? null)
}

/** How a deployment on this machine ended, with its log; null if that cannot be read. */
async function deploymentEnd(operationId: string) {
  return withInstallation(async (_, db) => {
    const deployment = await finishedDeployment(db, operationId)
    return deployment ? { ...deployment, log: await readLog(db, deployment.id) } : null
  }).catch(() => null)
}

/** Waits for the record: the engine reports the end of a program a moment before its deployment is recorded as failed. */
async function finishedDeployment(db: Db, operationId: string): Promise<DeploymentRow | undefined> {
  for (let waited = 0; ; waited += recordEveryMs) {
    const deployment = await findDeploymentByOperation(db, operationId)
    if (deployment?.finished_at || waited >= recordMs) return deployment
    await sleep(recordEveryMs)
  }
}

const tail = (text: string): string => text.trim().split('\n').slice(-tailLines).join('\n')

export function deployCommand(program: Command): void {
  program
    .command('deploy')
    .argument('<folder-or-zip>')
    .option('--key <key>', "API key; default: that of berth login, or of this machine's first account")
    .option('--url <url>', 'API of another platform')
    .option('--app <app>', 'id or subdomain of an application, which gets a new version; default: a new application')
    .option('--wait <seconds>', 'maximum time to follow the deployment', '600')
    .option('--no-cache', 'reinstall its dependencies, without the result of an earlier install step')
    .option('--json', 'print the outcome as one JSON object; progress goes to stderr')
    .action(async (source: string, { key, url, app: to, wait, cache, json }: DeployOptions) => {
      const target = url
        ? remoteTarget(url, key)
        : await withInstallation(async own => ({ ...localTarget(own), ...(key ? { apiKey: key } : {}) }))
      const done = deploy(target, source, { to, seconds: Number(wait), noCache: !cache }, sayOnStderr)
      const { app, deploymentId } = await (json ? done.catch(failedInJson) : done)
      const address = app.domain ? addressOf(target, app.domain) : null
      if (json) console.log(JSON.stringify(deployView({ app, deploymentId }, address)))
      else console.log(address ? `${app.name} answers at ${address}` : `${app.name} runs (${app.id}).`)
    })
}

/** What scripts read: exactly these keys, which docs/json-output.md lists. */
export function deployView({ app, deploymentId }: Deployed, address: string | null) {
  return {
    ok: true,
    app_id: app.id,
    name: app.name,
    url: address,
    deployment_id: deploymentId,
    code: null,
    message: null,
  }
}

/** The same for a deploy that failed or was refused; exits with 1. */
function failedInJson(error: unknown): never {
  if (!(error instanceof DeployFailed || error instanceof Refused)) throw error
  const { code, message } = error
  const deployment_id = error instanceof DeployFailed ? error.deploymentId : null
  console.log(JSON.stringify({ ok: false, app_id: null, name: null, url: null, deployment_id, code, message }))
  process.exit(1)
}

function remoteTarget(url: string, key: string | undefined): Target {
  const apiKey = key ?? loginFor(url)?.apiKey
  if (!apiKey) throw new Error(`There is no key for ${url}. Give one with --key, or run: berth login --url ${url}`)
  return { baseUrl: url, apiKey, edgeUrl: null }
}
