/**
 * Every code of the management wire and the one HTTP status it has (contract 11). An endpoint may override a status in
 * its `errors` list for the few codes that stand at two. The sentence is what a person reads beside the code.
 */
export const managementErrors = {
  INVALID_FILE: [400, 'The file is not a zip archive that can be deployed.'],
  INVALID_FILENAME: [400, 'A file name in the upload is not allowed; the upload itself must end in .zip.'],
  FEW_MEMORY: [400, 'The plan has too little memory left for this application.'],
  UPLOAD_ABORTED: [400, 'The upload ended before the whole file arrived.'],
  FAILED_UPLOAD_DATA: [400, 'The upload could not be stored. Try again.'],
  FAILED_CLUSTER_SELECTION: [400, 'No container host has room for this application.'],
  EMPTY_RESPONSE: [400, 'The container host gave no answer.'],
  FAILED_UPLOAD: [400, 'The upload failed. Try again.'],
  INVALID_PATH: [400, 'The path must stay inside the application and be a legal name.'],
  COMMIT_FAILED: [400, 'The commit could not be queued. Try again.'],
  STORAGE_UPLOAD_FAILED: [400, 'The upload could not be stored. Try again.'],
  INVALID_ACCESS_TOKEN: [400, 'The access token is malformed or was refused by the git provider.'],
  MISSING_REQUIRED_FIELDS: [400, 'A field that is needed is missing.'],
  INVALID_BRANCH_LENGTH: [400, 'The name of a branch takes at most 256 characters.'],
  GIT_ALREADY_CONFIGURED: [400, 'This application is linked to a repository already. Unlink it first.'],
  GIT_NOT_CONFIGURED: [400, 'This application is not linked to a repository.'],
  BRANCH_NOT_FOUND: [400, 'The repository has no such branch.'],
  INVALID_JSON_BODY: [400, 'The body is not a JSON object.'],
  INVALID_INPUT: [400, 'A text holds characters that are not allowed.'],
  INVALID_PARAMETERS: [400, 'A parameter is missing or not of the right form.'],
  MISSING_PARAMETERS: [400, 'A parameter is missing.'],
  MISSING_CONFIG: [400, 'The archive has no configuration file (berth.app or berth.config) at its root.'],
  MISSING_DISPLAY_NAME: [400, 'The configuration file has no DISPLAY_NAME.'],
  INVALID_DISPLAY_NAME: [400, 'DISPLAY_NAME takes 1 to 32 characters.'],
  MISSING_MAIN: [400, 'The configuration file has neither MAIN nor START.'],
  INVALID_MAIN: [400, 'MAIN must name an existing program file of a known language, in at most 32 characters.'],
  MISSING_MEMORY: [400, 'The configuration file has no MEMORY.'],
  INVALID_MEMORY: [400, 'MEMORY takes whole MB from 256 (512 with SUBDOMAIN) to 32768.'],
  INSUFFICIENT_MEMORY: [400, 'The plan has too little memory left.'],
  MISSING_VERSION: [400, 'The configuration file has no VERSION.'],
  INVALID_VERSION: [400, 'VERSION takes recommended, latest, or a version that this platform offers.'],
  INVALID_DESCRIPTION: [400, 'DESCRIPTION takes at most 280 characters.'],
  INVALID_SUBDOMAIN: [400, 'SUBDOMAIN takes letters, digits and inner hyphens, at most 63.'],
  SUBDOMAIN_TAKEN: [400, 'This subdomain belongs to another application or is reserved.'],
  CANNOT_SET_SUBDOMAIN: [400, 'The subdomain is fixed when the application is created.'],
  INVALID_START: [400, 'START takes at most 256 characters.'],
  INVALID_AUTORESTART: [400, 'AUTORESTART takes true or false.'],
  INVALID_RUNTIME: [400, 'RUNTIME is not a known runtime, or START stands without MAIN and RUNTIME.'],
  MISSING_DEPENDENCIES_FILE: [400, 'The dependency file that this language needs is missing.'],
  ACCESS_DENIED: [401, 'The credential is missing, malformed, invalid or expired.'],
  MISSING_SCOPE: [403, 'The API key lacks the scope for this.'],
  RESOURCE_NOT_ALLOWED: [403, 'The API key is limited to other resources.'],
  PERMISSION_DENIED: [403, 'Your role does not permit this.'],
  RESTORE_IN_PROGRESS: [403, 'A snapshot of this application is being restored.'],
  GITHUB_NOT_CONNECTED: [403, 'Your account is not connected to the git provider.'],
  REPOSITORY_NOT_AVAILABLE: [403, 'Your installation of the git app does not cover this repository.'],
  REPOSITORY_PERMISSION_REQUIRED: [403, 'Linking a repository needs permission to write to it.'],
  COUNTRY_BLOCKED: [403, 'This service is not available in your country.'],
  APP_NOT_FOUND: [404, 'There is no such application.'],
  DELETE_ERROR: [404, 'The application could not be deleted at its host. Nothing was lost; try again.'],
  UNKNOWN_WORKSPACE: [404, 'There is no such workspace.'],
  REPOSITORY_NOT_FOUND: [404, 'There is no such repository that your installation of the git app can see.'],
  LOGS_UNAVAILABLE: [404, 'There are no logs yet.'],
  ROUTE_NOT_FOUND: [404, 'There is no such route.'],
  CONTAINER_ALREADY_STARTED: [409, 'The application runs already.'],
  CONTAINER_ALREADY_STOPPED: [409, 'The application is stopped already.'],
  CONTAINER_TEMPORARILY_SUSPENDED: [409, 'The application is suspended.'],
  CONTAINER_NOT_FOUND: [409, 'The application has no container.'],
  CONTAINER_INSUFFICIENT_DISK_SPACE: [409, 'The host has too little disk space.'],
  CONTAINER_NETWORK_CONFLICT: [409, 'The network of the application could not be set up.'],
  ACTION_FAILED: [409, 'The container host could not carry this out.'],
  REPOSITORY_BRANCH_ALREADY_CONFIGURED: [409, 'This branch of the repository is linked to an application already.'],
  IDEMPOTENCY_KEY_REUSED: [409, 'This Idempotency-Key was used for another request.'],
  IDEMPOTENCY_IN_PROGRESS: [409, 'The first request with this Idempotency-Key still runs.'],
  PAYLOAD_TOO_LARGE: [413, 'The body is too large.'],
  FILE_TOO_LARGE: [413, 'The file is over 100 MB.'],
  INVALID_CONTENT_TYPE: [415, 'This content type is not accepted here.'],
  KEEP_CALM: [429, 'Too many requests of this kind. Wait as long as Retry-After says.'],
  RATE_LIMIT: [429, 'The request budget is spent. Wait as long as Retry-After says.'],
  INTERNAL_SERVER_ERROR: [500, 'Something unexpected happened. The request id helps to find it.'],
  VALIDATION_FAILED: [502, 'The git provider refused to say whether this is possible.'],
  FAILED_TO_FETCH: [502, 'The git provider could not be reached. Try again.'],
  VALIDATION_TIMEOUT: [504, 'The git provider took too long. Try again.'],
  CLUSTER_TIMEOUT: [504, 'The container host took too long.'],
  CLUSTER_MAINTENANCE_TRY_LATER: [503, 'Provisioning is in maintenance. Try again later.'],
  UPLOAD_BUSY: [503, 'Too many uploads are being checked. Try again in a moment.'],
  DATABASE_UNAVAILABLE: [503, 'The database does not answer. Try again in a moment.'],
  CLUSTER_UNAVAILABLE: [503, 'The container host does not answer.'],
  DEPLOYMENT_NOT_FOUND: [404, 'There is no such deployment.'],
  BUILD_FAILED: [400, 'Installing the dependencies failed; the deployment log says why.'],
  HEALTH_CHECK_FAILED: [400, 'The program did not answer on its port in time, or ended at once.'],
  DEPLOY_FAILED: [400, 'The deployment failed.'],
  DEPLOY_CANCELLED: [400, 'The deployment was cancelled.'],
  SNAPSHOT_IN_PROGRESS: [409, 'A snapshot of this application is being made.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type ErrorCode = keyof typeof managementErrors

/** A refusal or failure with a code of the catalogue. `message` replaces the table's sentence where more can be said. */
export class ApiError extends Error {
  constructor(
    readonly code: ErrorCode,
    message?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message ?? managementErrors[code][1])
    this.name = 'ApiError'
  }

  get status(): number {
    return managementErrors[this.code][0]
  }
}

/** True when a text is a code of the management catalogue. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(managementErrors, text)
}
