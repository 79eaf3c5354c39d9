import { openAsBlob } from 'node:fs'
import { request } from 'node:http'
import { request as requestHttps } from 'node:https'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { resourceIdPattern } from '../../policy/ids.ts'

/** A platform as a client sees it. */
export interface Target {
  baseUrl: string
  apiKey: string
  /** The proxy's address where application names do not resolve to it; null = use the application's own name. */
  edgeUrl: string | null
  /** It runs on this machine, from the same data folder. */
  isHere?: true
}

export interface UploadedApp {
  id: string
  name: string
  domain?: string
}

/** The API refused a request; the message can be shown to the user. */
export class Refused extends Error {
  override name = 'Refused'
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message)
  }
}

/** Uploads of one account are limited to one per 3 s, commits to one per 5 s: the maximum that the command waits before it tries again. */
const maxRetryAfterSeconds = 10

export interface UploadOptions {
  /** The application that the zip is committed to; without it the zip becomes a new one. */
  app?: UploadedApp | undefined
  noCache?: boolean
}

/** Sends a zip, and once more if it came too soon after the previous one. Throws `Refused` with the API's code. */
export async function uploadArchive(
  target: Target,
  path: string,
  { app: present, noCache = false }: UploadOptions = {},
): Promise<{ app: UploadedApp; operationId: string | null }> {
  const form = new FormData()
  form.set('file', await openAsBlob(path, { type: 'application/zip' }), basename(path))
  const route = present ? `/v2/apps/${present.id}/commit` : '/v2/apps'
  const send = () => call(target, `${route}${noCache ? '?no_cache=true' : ''}`, { method: 'POST', body: form })
  let response = await send()
  const waitSeconds = Number(response.headers.get('retry-after') ?? 0)
  if (response.status === 429 && waitSeconds <= maxRetryAfterSeconds) {
    await sleep(waitSeconds * 1000)
    response = await send()
  }
  const created = await answerOf(response)
  const app = present ?? (created as UploadedApp)
  return { app, operationId: response.headers.get('x-operation-id') }
}

/** An event of a deployment; `code` and `message` only with `error`. */
export interface DeployEvent {
  deployment_id: string
  operation_id: string
  state: 'pending' | 'clone' | 'commit' | 'restarting' | 'success' | 'error'
  code?: string
  message?: string
  /** Only while it waits. */
  position?: number
  waiting_for?: string
}

/** How many deployments are looked through for that of an operation. */
const listedDeployments = 20

/**
 * The events of the deployment that an operation does, else of the application's newest one, oldest first; null when the application is
 * missing. Throws when the API does not answer.
 */
export async function deploymentEvents(
  target: Target,
  appId: string,
  operationId: string | null,
): Promise<DeployEvent[] | null> {
  const path = `/v2/apps/${appId}/deployments?limit=${operationId ? listedDeployments : 1}`
  try {
    const deployments = (await answerOf(await call(target, path))) as DeployEvent[][]
    const isOwn = ([event]: DeployEvent[]) => event?.operation_id === operationId
    return (operationId ? deployments.find(isOwn) : deployments[0]) ?? []
  } catch (error) {
    if (error instanceof Refused && error.code === 'APP_NOT_FOUND') return null
    throw error
  }
}

/** The output of installing and starting a deployment. */
export async function deploymentLog(target: Target, appId: string, deploymentId: string): Promise<string> {
  const path = `/v2/apps/${appId}/deployments/${deploymentId}/logs`
  return ((await answerOf(await call(target, path))) as { logs: string }).logs
}

/** The application's output, the newest 1 MB at most. */
export async function appLogs(target: Target, appId: string): Promise<string> {
  return ((await answerOf(await call(target, `/v2/apps/${appId}/logs`))) as { logs: string }).logs
}

/** An application as the API lists it. */
interface ListedApp {
  id: string
  name: string
  domain: string | null
}

/** The caller's applications. */
export async function listApps(target: Target): Promise<ListedApp[]> {
  const me = (await answerOf(await call(target, '/v2/users/me'))) as { applications: ListedApp[] }
  return me.applications
}

/** An application by its id, which may be one of a workspace, or one of the caller's by its subdomain. Throws `Refused` with APP_NOT_FOUND. */
export async function findApp(target: Target, given: string): Promise<UploadedApp> {
  const { id, name, domain } = resourceIdPattern.test(given)
    ? // Members of a workspace reach it by the id that they have given only.
      { ...((await answerOf(await call(target, `/v2/apps/${given}`))) as ListedApp), id: given }
    : await findOwnApp(target, given)
  return { id, name, ...(domain && { domain }) }
}

async function findOwnApp(target: Target, subdomain: string): Promise<ListedApp> {
  const apps = await listApps(target)
  const subdomainOf = ({ domain }: ListedApp) => domain?.split('.')[0]
  const app = apps.find(app => subdomainOf(app) === subdomain)
  if (app) return app
  const own = apps.map(subdomainOf).filter(Boolean).join(', ') || 'none'
  throw new Refused('APP_NOT_FOUND', `You have no application with the subdomain ${subdomain}. Yours: ${own}.`)
}

/** Posts JSON without credentials; resolves to the value under `response`. Throws `Refused` with the API's code. */
export async function post(baseUrl: string, path: string, body: object): Promise<unknown> {
  return answerOf(await call({ baseUrl, apiKey: null }, path, { method: 'POST', body: JSON.stringify(body) }))
}

type CallTarget = Pick<Target, 'baseUrl'> & { apiKey: string | null }

function call({ baseUrl, apiKey }: CallTarget, path: string, init: RequestInit = {}): Promise<Response> {
  const headers: Record<string, string> = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
  return fetch(new URL(path, baseUrl), { ...init, headers, signal: AbortSignal.timeout(120_000) }).catch(error => {
    throw new Error(`${baseUrl} does not answer (${error.cause?.message ?? error.message}).`)
  })
}

async function answerOf(response: Response): Promise<unknown> {
  const body = (await response.json().catch(() => null)) as {
    response?: unknown
    code?: string
    message?: string
  } | null
  if (response.ok && body) return body.response
  const code = body?.code ?? `HTTP_${response.status}`
  throw new Refused(code, body?.message ? `${code}: ${body.message}` : code)
}

/** The address at which browsers reach an application. */
export function addressOf({ edgeUrl }: Target, domain: string): string {
  const { protocol, port } = new URL(edgeUrl ?? `http://${domain}`)
  return `${protocol}//${domain}${port && `:${port}`}`
}

/** Sends one GET through the proxy under the application's name. Resolves to the status, and to whether the proxy itself answered. */
export function requestApp({ edgeUrl }: Target, domain: string): Promise<{ status: number; ofProxy: boolean }> {
  const url = new URL(edgeUrl ?? `http://${domain}`)
  return new Promise((resolve, reject) => {
    const isSecure = url.protocol === 'https:'
    // This checks whether the application answers, not its certificate: browsers may trust an authority that this process does not.
    const tls = { servername: domain, rejectUnauthorized: false }
    const appRequest = (isSecure ? requestHttps : request)(
      {
        ...{ host: url.hostname, port: url.port || (isSecure ? 443 : 80), path: '/', headers: { host: domain } },
        ...(isSecure && tls),
        timeout: 10_000,
      },
      answer => {
        answer.resume()
        const status = answer.statusCode ?? 0
        // Only the proxy's own pages (no such application, or one that does not answer) say no-store.
        const ofProxy = [404, 502, 503, 504].includes(status) && answer.headers['cache-control'] === 'no-store'
        resolve({ status, ofProxy })
      },
    )
    appRequest.once('timeout', () => appRequest.destroy(new Error('no answer within 10 s')))
    appRequest.once('error', reject)
    appRequest.end()
  })
}
