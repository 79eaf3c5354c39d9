import type { Endpoint } from '../pipeline/endpoint.ts'
import { changeLocale, changeUsername, rotateApiKey } from './account/account.ts'
import { listAuditRecord } from './account/audit.ts'
import { downgradePlan } from './account/downgrade.ts'
import { getCurrentUser } from './account/users.ts'
import { createChatCompletion } from './ai/chat.ts'
import { getModel, listModels } from './ai/models.ts'
import { getAiUsage } from './ai/usage.ts'
import { createApp } from './apps/app-creation.ts'
import { deleteApp, getApp } from './apps/apps.ts'
import { deleteFiles, listFiles, moveFiles, readFileContent, writeFiles } from './apps/files.ts'
import { getLogs } from './apps/logs.ts'
import { getMetrics } from './apps/metrics.ts'
import { restartApp, startApp, stopApp } from './apps/power.ts'
import { streamRealtime } from './apps/realtime.ts'
import { getAppStatus, listAppStatuses } from './apps/status.ts'
import { listVariables, mergeVariables, removeVariables, replaceVariables } from './apps/variables.ts'
import { getDatabaseCertificate, resetDatabaseCredentials } from './databases/credentials.ts'
import { createDatabase } from './databases/database-creation.ts'
import { deleteDatabase, getDatabase, updateDatabase } from './databases/databases.ts'
import { startDatabase, stopDatabase } from './databases/power.ts'
import { getDatabaseLogs, getDatabaseMetrics, getDatabaseStatus, listDatabaseStatuses } from './databases/readings.ts'
import {
  createDatabaseSnapshot,
  getDatabaseRestoreState,
  listDatabaseSnapshots,
  restoreDatabase,
} from './databases/snapshots.ts'
import { commitApp } from './deploys/commit.ts'
import { getDeploymentLog } from './deploys/deployment-logs.ts'
import { getCurrentDeployment, listDeliveries, listDeployments } from './deploys/deployments.ts'
import { setDeployWebhook } from './git/deploy-webhook.ts'
import { receiveGitAppEvent } from './git/git-app.ts'
import { beginGitConnection, getGitConnection } from './git/git-connect.ts'
import { completeGitConnection } from './git/git-connect-callback.ts'
import { confirmGitConnection } from './git/git-connect-offer.ts'
import { receivePush } from './git/git-webhook.ts'
import { linkRepository, unlinkRepository } from './git/github-app.ts'
import { getNetworkAnalytics } from './network/analytics.ts'
import { purgeAppCache } from './network/cache.ts'
import { setCustomDomain } from './network/custom-domain.ts'
import { listDnsRecords } from './network/dns-records.ts'
import { getNetworkErrors } from './network/errors.ts'
import { listAppDomains, listLoadBalancers } from './network/host-names.ts'
import { getNetworkLogs } from './network/logs.ts'
import { getNetworkPerformance } from './network/performance.ts'
import { getNetworkSettings, updateNetworkSettings } from './network/settings.ts'
import { getServiceStatus } from './service.ts'
import { beginAuthorization, claimAuthorization, decideAuthorization, getAuthorization } from './sign-in/authorize.ts'
import { showAuthorizePage } from './sign-in/authorize-page.ts'
import { solveCaptcha } from './sign-in/captcha.ts'
import { beginSignIn, completeSignIn, endSession, renewSession } from './sign-in/sign-in.ts'
import { showSignInPage } from './sign-in/sign-in-page.ts'
import { listAccountSnapshots } from './snapshots/account-snapshots.ts'
import { getRestoreState, restoreApp } from './snapshots/restore.ts'
import { createSnapshot, listSnapshots } from './snapshots/snapshots.ts'
import { shareAppWithWorkspace, unshareAppFromWorkspace } from './workspaces/workspace-apps.ts'
import {
  addMember,
  changeMember,
  createInviteCode,
  leaveWorkspace,
  removeMember,
} from './workspaces/workspace-members.ts'
import { createWorkspace, deleteWorkspace, getWorkspace, listWorkspaces } from './workspaces/workspaces.ts'

/** Every endpoint of the management API. The router, the OpenAPI document and the tests use this list. */
export const endpoints: readonly Endpoint[] = [
  getCurrentUser,
  listAccountSnapshots,
  rotateApiKey,
  listAuditRecord,
  showSignInPage,
  beginSignIn,
  completeSignIn,
  renewSession,
  endSession,
  solveCaptcha,
  showAuthorizePage,
  beginAuthorization,
  getAuthorization,
  decideAuthorization,
  claimAuthorization,
  downgradePlan,
  changeLocale,
  changeUsername,
  createApp,
  listAppStatuses,
  listAppDomains,
  listLoadBalancers,
  getApp,
  deleteApp,
  getAppStatus,
  getLogs,
  getMetrics,
  streamRealtime,
  getNetworkAnalytics,
  getNetworkErrors,
  getNetworkLogs,
  getNetworkPerformance,
  getNetworkSettings,
  updateNetworkSettings,
  startApp,
  stopApp,
  restartApp,
  commitApp,
  listFiles,
  readFileContent,
  writeFiles,
  moveFiles,
  deleteFiles,
  listVariables,
  mergeVariables,
  replaceVariables,
  removeVariables,
  setCustomDomain,
  listDnsRecords,
  purgeAppCache,
  setDeployWebhook,
  linkRepository,
  unlinkRepository,
  listDeployments,
  getCurrentDeployment,
  getDeploymentLog,
  listDeliveries,
  listSnapshots,
  createSnapshot,
  restoreApp,
  getRestoreState,
  createDatabase,
  listDatabaseStatuses,
  getDatabase,
  updateDatabase,
  deleteDatabase,
  startDatabase,
  stopDatabase,
  getDatabaseStatus,
  getDatabaseMetrics,
  getDatabaseLogs,
  getDatabaseCertificate,
  resetDatabaseCredentials,
  listDatabaseSnapshots,
  createDatabaseSnapshot,
  getDatabaseRestoreState,
  restoreDatabase,
  listWorkspaces,
  getWorkspace,
  createWorkspace,
  deleteWorkspace,
  leaveWorkspace,
  createInviteCode,
  addMember,
  changeMember,
  removeMember,
  shareAppWithWorkspace,
  unshareAppFromWorkspace,
  receivePush,
  receiveGitAppEvent,
  getGitConnection,
  beginGitConnection,
  completeGitConnection,
  confirmGitConnection,
  createChatCompletion,
  listModels,
  getModel,
  getAiUsage,
  getServiceStatus,
]
