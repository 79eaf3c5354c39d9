import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Db } from '../db/database.ts'
import { type DeploymentRow, findByOperation, readLog } from '../db/deploys/deployments.ts'
import { archiveFolder } from './client/archive-folder.ts'
import { appLogs, type Target, type UploadedApp, uploadArchive } from './client/client.ts'
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
}

/** The platform on this machine, with its first key. */
export function localTarget({ config, secrets }: Installation): Target {
  return { baseUrl: config.urls.base, apiKey: secrets.apiKey ?? '', edgeUrl: config.urls.edge }
}

/** Zips when it is a folder, uploads, and follows until it answers. Throws `Refused` or `DeployFailed`. */
export async function deploy(target: Target, source: string, seconds: number, say: Say): Promise<UploadedApp> {
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
    await step(say, `deploying ${app.name}`, () => followApp(target, app, seconds)).catch(async error => {
      if (!(error instanceof DeployFailed)) throw error
      const said = [operationId && (await deploymentEnd(operationId)), await appLogs(target, app.id).catch(() => '')]
      throw new DeployFailed([error.message, ...said.map(text => tail(text ?? ''))].filter(Boolean).join('\n'))
    })
    return app
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Reason and log of a deployment to the platform on this machine; an empty text otherwise. */
async function deploymentEnd(operationId: string): Promise<string> {
  return withInstallation(async (_, db) => {
    const deployment = await ended(db, operationId)
    if (!deployment) return ''
    const reason = [deployment.code, deployment.message].filter(Boolean).join(': ')
    return `${await readLog(db, deployment.id)}\n${reason}`
  }).catch(() => '')
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
    .action(async (source: string, { key, url, wait }: DeployOptions) => {
      const target = url
        ? remoteTarget(url, key)
        : await withInstallation(async own => ({ ...localTarget(own), ...(key ? { apiKey: key } : {}) }))
      const app = await deploy(target, source, Number(wait), sayOnStderr)
      console.log(
        app.domain ? `${app.name} answers at http://${app.domain}${portOf(target)}` : `${app.name} runs (${app.id}).`,
      )
    })
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
