import Router from 'find-my-way'
import Koa, { type Context } from 'koa'
import { KiB } from '../lib/bytes.ts'
import { ApiError, type Wire } from '../policy/errors.ts'
import { answerFiles } from './files/files-surface.ts'
import { answerPublic } from './files/public-file.ts'
import { countryBlocked, failedText } from './files/text-answers.ts'
import { AddressSet, addressOf } from './http/address.ts'
import { Exchange } from './http/call.ts'
import { failure, type Reply, send } from './http/respond.ts'
import { linger } from './http/server.ts'
import { preflights } from './pipeline/cross-origin.ts'
import type { Endpoint } from './pipeline/endpoint.ts'
import { blobApi, openApi } from './pipeline/openapi.ts'
import type { Log, Parts } from './pipeline/parts.ts'
import { serve } from './pipeline/serve.ts'
import { blobEndpoints } from './v1/endpoints.ts'
import { accountKey, accountLocale, accountUsername } from './v2/account/account.ts'
import { accountAudit } from './v2/account/audit.ts'
import { accountDowngrade } from './v2/account/downgrade.ts'
import { usersMe } from './v2/account/users.ts'
import { appsCreate } from './v2/apps/app-creation.ts'
import { appsDelete, appsInfo } from './v2/apps/apps.ts'
import { appsFiles, appsFilesContent, appsFilesDelete, appsFilesMove, appsFilesWrite } from './v2/apps/files.ts'
import { appsLogs } from './v2/apps/logs.ts'
import { appsMetrics } from './v2/apps/metrics.ts'
import { appsRestart, appsStart, appsStop } from './v2/apps/power.ts'
import { appsRealtime } from './v2/apps/realtime.ts'
import { appsStatus, appsStatusAll } from './v2/apps/status.ts'
import { appsEnvs, appsEnvsMerge, appsEnvsRemove, appsEnvsReplace } from './v2/apps/variables.ts'
import { appsCommit } from './v2/deploys/commit.ts'
import { appsDeploymentLogs } from './v2/deploys/deployment-logs.ts'
import { appsDeliveries, appsDeployments, appsDeploymentsCurrent } from './v2/deploys/deployments.ts'
import { appsWebhook } from './v2/git/deploy-webhook.ts'
import { gitApp } from './v2/git/git-app.ts'
import { gitConnect, gitConnectBegin } from './v2/git/git-connect.ts'
import { gitConnectCallback } from './v2/git/git-connect-callback.ts'
import { gitConnectConfirm } from './v2/git/git-connect-offer.ts'
import { gitWebhook } from './v2/git/git-webhook.ts'
import { appsLink, appsUnlink } from './v2/git/github-app.ts'
import { serviceStatus } from './v2/service.ts'
import { authorizeBegin, authorizeClaim, authorizeDecide, authorizeShow } from './v2/sign-in/authorize.ts'
import { authorizePage } from './v2/sign-in/authorize-page.ts'
import { accountCaptcha } from './v2/sign-in/captcha.ts'
import { sessionEnd, sessionRenew, signInBegin, signInEnd } from './v2/sign-in/sign-in.ts'
import { signInPage } from './v2/sign-in/sign-in-page.ts'
import { usersSnapshots } from './v2/snapshots/account-snapshots.ts'
import { appsRestore, appsRestoreState } from './v2/snapshots/restore.ts'
import { appsSnapshots, appsSnapshotsCreate } from './v2/snapshots/snapshots.ts'
import { workspaceAppsShare, workspaceAppsUnshare } from './v2/workspaces/workspace-apps.ts'
import {
  membersAdd,
  membersChange,
  membersCode,
  membersRemove,
  workspacesLeave,
} from './v2/workspaces/workspace-members.ts'
import { workspacesCreate, workspacesDelete, workspacesFind, workspacesList } from './v2/workspaces/workspaces.ts'

/** Every endpoint of the management API. The OpenAPI document, the limits and the tests walk over this list. */
export const endpoints: readonly Endpoint[] = [
  usersMe,
  usersSnapshots,
  accountKey,
  accountAudit,
  signInPage,
  signInBegin,
  signInEnd,
  sessionRenew,
  sessionEnd,
  accountCaptcha,
  authorizePage,
  authorizeBegin,
  authorizeShow,
  authorizeDecide,
  authorizeClaim,
  accountDowngrade,
  accountLocale,
  accountUsername,
  appsCreate,
  appsStatusAll,
  appsInfo,
  appsDelete,
  appsStatus,
  appsLogs,
  appsMetrics,
  appsRealtime,
  appsStart,
  appsStop,
  appsRestart,
  appsCommit,
  appsFiles,
  appsFilesContent,
  appsFilesWrite,
  appsFilesMove,
  appsFilesDelete,
  appsEnvs,
  appsEnvsMerge,
  appsEnvsReplace,
  appsEnvsRemove,
  appsWebhook,
  appsLink,
  appsUnlink,
  appsDeployments,
  appsDeploymentsCurrent,
  appsDeploymentLogs,
  appsDeliveries,
  appsSnapshots,
  appsSnapshotsCreate,
  appsRestore,
  appsRestoreState,
  workspacesList,
  workspacesFind,
  workspacesCreate,
  workspacesDelete,
  workspacesLeave,
  membersCode,
  membersAdd,
  membersChange,
  membersRemove,
  workspaceAppsShare,
  workspaceAppsUnshare,
  gitWebhook,
  gitApp,
  gitConnect,
  gitConnectBegin,
  gitConnectCallback,
  gitConnectConfirm,
  serviceStatus,
]

/** One listener per surface, in the order of the addresses in `Config.urls`. */
export interface Surfaces {
  base: Koa
  blob: Koa
  s3: Koa
  files: Koa
  public: Koa
}

/** The wire of the platform: which surface answers what. */
export function surfaces(parts: Parts): Surfaces {
  const { urls } = parts.config
  return {
    base: jsonSurface(parts, [...endpoints, openApi(endpoints, urls.base)]),
    blob: jsonSurface(parts, [...blobEndpoints, openApi(blobEndpoints, urls.blob, blobApi)], 'blob'),
    s3: surface(async ({ requestId }) => xml404(requestId), { url: urls.s3 }),
    files: textSurface(parts, answerFiles, urls.files),
    public: textSurface(parts, answerPublic, urls.public),
  }
}

/** Browsers that came by https once do not come in clear text again for a year. */
const overHttpsOnly: Koa.Middleware = ({ res }, next) => {
  res.setHeader('Strict-Transport-Security', 'max-age=31536000')
  return next()
}

/** An API over a list of endpoints. */
export function jsonSurface(parts: Parts, list: readonly Endpoint[], wire: Wire = 'management'): Koa {
  const router = Router({ maxParamLength: 16 * KiB })
  for (const endpoint of list)
    router.on(endpoint.method, endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'), () => {}, endpoint)
  const unknown = failure(new ApiError('ROUTE_NOT_FOUND'), { wire })
  const preflight = preflights(list)
  const answer = async (exchange: Exchange, found?: Endpoint) =>
    found ? serve(found, exchange, parts) : (preflight(exchange.request) ?? unknown)
  return surface(answer, { router, parts, url: parts.config.urls[wire === 'blob' ? 'blob' : 'base'] })
}

/** Files as such, for whoever has their address, but not from a country that is blocked; refusals are text. */
function textSurface(parts: Parts, answer: (exchange: Exchange, parts: Parts) => Promise<Reply>, url: string): Koa {
  const given = (exchange: Exchange) => answer(exchange, parts).catch(thrown => failedText(thrown, exchange, parts))
  const refused = Promise.resolve(countryBlocked)
  return surface(exchange => (parts.isBlocked(exchange.address) ? refused : given(exchange)), { parts, url })
}

interface Routing {
  /** Where its clients reach it. */
  url: string
  router?: Router.Instance<Router.HTTPVersion.V1>
  parts?: Parts
}

/** A surface writes its reply itself: what Koa would derive from a body is known here already, and it is the hot path. */
function surface(
  answer: (exchange: Exchange, found?: Endpoint) => Promise<Reply>,
  { url, router, parts }: Routing,
): Koa {
  const app = new Koa()
  const proxies = new AddressSet(parts?.config.trustedProxies ?? [])
  if (url.startsWith('https:')) app.use(overHttpsOnly)
  app.use(async (ctx: Context) => {
    ctx.respond = false
    const { req: request, res: response } = ctx
    const found = router?.find(request.method as Router.HTTPMethod, request.url ?? '/')
    const address = addressOf(request, proxies)
    const exchange = new Exchange(request, response, address, found?.params ?? {}, found?.searchParams ?? {})
    const endpoint = found?.store as Endpoint | undefined
    const reply = await answer(exchange, endpoint)
    send(response, reply, exchange.requestId)
    if (endpoint && parts && request.method !== 'GET') note(parts.log, exchange, endpoint, reply)
    linger(request, response, exchange.begun)
  })
  app.on('error', () => {})
  return app
}

/** One line per command. The route's name stands for its path, so that nothing secret in an address is logged. */
function note(log: Log, { requestId, address, begun }: Exchange, { name }: Endpoint, { status }: Reply): void {
  log.info({ requestId, endpoint: name, status, address, ms: Math.round(performance.now() - begun) }, 'command')
}

const xml404 = (requestId: string): Reply => ({
  status: 404,
  headers: { 'Content-Type': 'application/xml' },
  body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message><RequestId>${requestId}</RequestId></Error>`,
})
