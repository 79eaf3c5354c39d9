import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Db } from '../db/database.ts'
import { type DeploymentRow, findByOperation, readLog } from '../db/deploys/deployments.ts'
import { archiveFolder } from './client/archive-folder.ts'
import { appLogs, deploymentLog, Refused, type Target, type UploadedApp, uploadArchive } from './client/client.ts'
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
  wait: string
  json?: boolean
}

/** The platform on this machine, with its first key. */
export function localTarget({ config, secrets }: Installation): Target {
  return { baseUrl: config.urls.base, apiKey: secrets.apiKey ?? '', edgeUrl: config.urls.edge, isHere: true }
}

/** An application that was deployed, and by which deployment. */
export interface Deployed {
  app: UploadedApp
  deploymentId: string | null
}

/** Zips when it is a folder, uploads, and follows until it answers, a line for each step. Throws `Refused` or `DeployFailed`. */
export async function deploy(target: Target, source: string, seconds: number, say: Say): Promise<Deployed> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-deploy-'))
  try {
    const path = resolve(source)
    const found = await stat(path).catch(() => {
      throw new Error(`There is no file or folder ${path}.`)
    })
    const archive = found.isDirectory() ? join(folder, `${basename(path)}.zip`) : path
    if (archive !== path) say(`Zipped ${await archiveFolder(path, archive)} files of ${basename(path)}`)
    const { app, operationId } = await uploadArchive(target, archive)
    say(`Uploaded as ${app.id}; bringing it up`)
    const deploymentId = await step(say, `deploying ${app.name}`, () => followApp(target, app, seconds, say)).catch(
      async error => {
        if (!(error instanceof DeployFailed)) throw error
        throw await withLogs(error, target, app.id, operationId)
      },
    )
    return { app, deploymentId }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** An application that could not be created is deleted by now, and its log with it: on its own machine the database still has that. */
const logOf = (target: Target, appId: string, deploymentId: string | null): Promise<string> =>
  deploymentId ? deploymentLog(target, appId, deploymentId).catch(() => '') : Promise.resolve('')

/** A failure with the last lines of the deployment's log, and of what the program printed. */
async function withLogs(
  { message, code, deploymentId }: DeployFailed,
  target: Target,
  appId: string,
  operationId: string | null,
): Promise<DeployFailed> {
  const here = target.isHere && operationId ? await deploymentEnd(operationId) : null
  const log = here?.log ?? (await logOf(target, appId, deploymentId))
  const reason = code ? '' : [here?.code, here?.message].filter(Boolean).join(': ')
  const said = [log, await appLogs(target, appId).catch(() => '')].map(tail)
  const lines = [message, ...new Set(said), reason].filter(Boolean)
  return new DeployFailed(lines.join('\n'), code ?? here?.code ?? null, deploymentId ?? here?.id ?? null)
}

/** How a deployment to the platform on this machine ended, with its log; null where that cannot be known. */
async function deploymentEnd(operationId: string) {
  return withInstallation(async (_, db) => {
    const deployment = await ended(db, operationId)
    return deployment ? { ...deployment, log: await readLog(db, deployment.id) } : null
  }).catch(() => null)
}

/** The engine shows the end of a program a moment before its deployment is recorded as failed. */
async function ended(db: Db, operationId: string): Promise<DeploymentRow | undefined> {
  for (let waited = 0; ; waited += recordEveryMs) {
    const deployment = await findByOperation(db, operationId)
    if (deployment?.finished_at || waited >= recordMs) return deployment
    await sleep(recordEveryMs)
  }
}

const tail = (text: string): string => text.trim().split('\n').slice(-tailLines).join('\n')

export function deployCommand(program: Command): void {
  program
    .command('deploy')
    .description('upload a folder or zip with a berth.app and follow it until it answers')
    .argument('<folder-or-zip>')
    .option('--key <key>', "API key; when left out that of berth login, or of this machine's first account")
    .option('--url <url>', 'API of another platform')
    .option('--wait <seconds>', 'how long to follow', '600')
    .option('--json', 'print the outcome as one JSON object; progress goes to stderr')
    .action(async (source: string, { key, url, wait, json }: DeployOptions) => {
      const target = url
        ? remoteTarget(url, key)
        : await withInstallation(async own => ({ ...localTarget(own), ...(key ? { apiKey: key } : {}) }))
      const done = deploy(target, source, Number(wait), sayOnStderr)
      const { app, deploymentId } = await (json ? done.catch(failedInJson) : done)
      const address = app.domain ? `http://${app.domain}${portOf(target)}` : null
      if (json) console.log(JSON.stringify(deployView({ app, deploymentId }, address)))
      else console.log(address ? `${app.name} answers at ${address}` : `${app.name} runs (${app.id}).`)
    })
}

/** What scripts read: exactly these keys, as docs/json-output.md has them. */
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

/** The same of one that failed, or was refused; ends with 1. */
function failedInJson(error: unknown): never {
  if (!(error instanceof DeployFailed || error instanceof Refused)) throw error
  const { code, message } = error
  const deployment_id = error instanceof DeployFailed ? error.deploymentId : null
  console.log(JSON.stringify({ ok: false, app_id: null, name: null, url: null, deployment_id, code, message }))
  process.exit(1)
}

function remoteTarget(url: string, key: string | undefined): Target {
  const apiKey = key ?? loginFor(url)?.apiKey
  if (!apiKey) throw new Error(`There is no key for ${url}: give one with --key, or run berth login --url ${url}`)
  return { baseUrl: url, apiKey, edgeUrl: null }
}

/** The proxy's port as it stands behind a name in an address. */
export function portOf({ edgeUrl }: Target): string {
  const port = edgeUrl ? new URL(edgeUrl).port : ''
  return port ? `:${port}` : ''
}
