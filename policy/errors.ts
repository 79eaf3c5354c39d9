import { networkErrors } from './network/network-errors.ts'
import { blobErrors } from './objects/blob-errors.ts'

/**
 * Every code of the management wire with its HTTP status (contract 10.1) and its message for people. An endpoint may override a status
 * in its `errors` list, for the few codes that have two.
 */
export const managementErrors = {
  ...networkErrors,
  SNAPSHOT_PROCESSING: [202, 'The snapshot is still running. It appears in the list when it is done.'],
  SNAPSHOT_RESTORE_PROCESSING: [202, 'The restore is still running. Read its state to follow it.'],
  INVALID_FILE: [400, 'The file is not a valid zip archive.'],
  INVALID_FILENAME: [400, 'A file name in the upload is not allowed; the upload itself must end in .zip.'],
  FEW_MEMORY: [400, 'The plan does not have enough memory left for this application.'],
  UPLOAD_ABORTED: [400, 'The upload ended before the whole file arrived.'],
  FAILED_UPLOAD_DATA: [400, 'The upload could not be stored. Try again.'],
  FAILED_CLUSTER_SELECTION: [400, 'No container host has enough free capacity for this application.'],
  EMPTY_RESPONSE: [400, 'The form contains no file.'],
  FAILED_UPLOAD: [400, 'The form ended before its final boundary. Try again.'],
  INVALID_PATH: [400, 'The path must be a valid name inside the application.'],
  INVALID_CONTENT: [400, 'The content must be a string, an array of bytes, or a Buffer object.'],
  INVALID_ENCODING: [400, 'The encoding must be base64, and the content must be valid base64.'],
  RENAME_FAILED: [400, 'The file could not be moved.'],
  DELETE_FAILED: [400, 'The file could not be deleted.'],
  READ_FAILED: [400, 'The variables could not be read.'],
  METRICS_NOT_SUPPORTED: [400, 'Metrics are available for applications with at least 512 MB.'],
  STATIC_APP_ENV_NOT_SUPPORTED: [400, 'Static sites have no variables: no program could read them.'],
  INVALID_ENV_CONTENT: [
    400,
    'Names of variables must consist of letters, digits and underscores, and values must be strings.',
  ],
  ENV_NAME_TOO_LONG: [400, 'The name of a variable must be at most 1024 characters.'],
  ENV_CONTENT_TOO_LONG: [400, 'The value of a variable must be at most 4096 characters.'],
  TOO_MANY_ENV_VARS: [400, 'An application can have at most 256 variables.'],
  INVALID_SNAPSHOT_ID: [400, 'The snapshotId is not the name of a snapshot.'],
  INVALID_VERSION_ID: [400, 'The version of a snapshot must be 24 to 96 letters, digits and signs.'],
  SNAPSHOT_DATABASE_MISMATCH: [400, 'The snapshot is of another type of database.'],
  INVALID_LOCALE: [400, 'The language must be pt-BR, en-US, es-ES or zh-CN.'],
  SAME_LOCALE: [400, 'The account already uses this language.'],
  INVALID_USERNAME: [400, 'A name must be 1 to 24 letters and digits, with single spaces between words.'],
  CONFIRM_CODE_INVALID: [400, 'The code is wrong, already used, or expired.'],
  SAME_USERNAME: [400, 'The account already has this name.'],
  AUTHORIZATION_PENDING: [400, 'The user has not decided yet. Try again after the interval.'],
  INVALID_VERIFIER: [400, 'The verifier does not match the challenge.'],
  INVALID_REDIRECT_URI: [400, 'The redirect address must be http on loopback, and the same in both requests.'],
  INVALID_REQUEST: [400, 'A field is missing or malformed.'],
  INVALID_GRANT: [400, 'The grant is unknown, already used, or expired. Start again.'],
  INVALID_SCOPE: [400, 'The scope does not exist.'],
  COMMIT_FAILED: [400, 'The commit could not be queued. Try again.'],
  STORAGE_UPLOAD_FAILED: [400, 'The upload could not be stored. Try again.'],
  INVALID_ACCESS_TOKEN: [400, 'The access token is malformed or was refused by the git provider.'],
  MISSING_REQUIRED_FIELDS: [400, 'A required field is missing.'],
  INVALID_BRANCH_LENGTH: [400, 'The name of a branch must be at most 256 characters.'],
  GIT_ALREADY_CONFIGURED: [400, 'This application is already linked to a repository. Unlink it first.'],
  GIT_NOT_CONFIGURED: [400, 'This application is not linked to a repository.'],
  BRANCH_NOT_FOUND: [400, 'The repository has no such branch.'],
  INVALID_JSON_BODY: [400, 'The body is not a JSON object.'],
  INVALID_INPUT: [400, 'A string contains characters that are not allowed.'],
  INVALID_PARAMETERS: [400, 'A parameter is missing or malformed.'],
  MISSING_PARAMETERS: [400, 'A parameter is missing.'],
  INVALID_ID: [400, 'An id is missing or malformed.'],
  INVALID_TIME_RANGE: [
    400,
    'start and end must be ISO 8601, at most 7 days apart, and start must be earlier and past.',
  ],
  INVALID_DATABASE_TYPE: [400, 'The type must be mongo, mysql, redis or postgres.'],
  INVALID_DATABASE_VERSION: [400, 'The version must be one that this platform offers for this type.'],
  CLUSTER_SELECTION_FAILED: [400, 'No container host has enough free capacity for this database.'],
  DATABASE_CREATION_FAILED: [400, 'The database could not be created. Nothing of it remains.'],
  NO_UPDATE_DATA: [400, 'Send a new name, new memory, or both.'],
  DATABASE_NOT_RUNNING: [400, 'The database is not running. Start it first.'],
  INVALID_RESET_TYPE: [400, 'What to reset must be password or certificate.'],
  INVALID_NAME: [400, 'A name must be 1 to 32 letters, digits, spaces, hyphens and underscores.'],
  INVALID_CODE: [400, 'The invite code is unknown, already used, or older than 5 minutes.'],
  INVALID_GROUP: [400, 'The role must be view, manager, maintain or admin.'],
  WORKSPACE_LIMIT_REACHED: [400, 'The plan allows no more workspaces.'],
  WORKSPACE_CREATION_FAILED: [400, 'The workspace could not be created. Try again.'],
  MEMBERS_LIMIT_REACHED: [400, 'The plan allows no more members in a workspace.'],
  APPLICATIONS_LIMIT_REACHED: [400, 'A workspace can contain at most 100 applications.'],
  CANNOT_INVITE_OWNER: [400, 'The owner is already in the workspace.'],
  CANNOT_EDIT_OWNER: [400, 'The owner of a workspace cannot be changed or removed.'],
  CANNOT_LEAVE_OWNER: [400, 'The owner cannot leave the workspace. Delete it instead.'],
  MEMBER_ALREADY_ADDED: [400, 'This account is already a member of the workspace.'],
  APP_ALREADY_IN_WORKSPACE: [400, 'The application is already shared in this workspace.'],
  MISSING_CONFIG: [400, 'The archive has no configuration file (berth.app or berth.config) at its root.'],
  MISSING_DISPLAY_NAME: [400, 'The configuration file has no DISPLAY_NAME.'],
  INVALID_DISPLAY_NAME: [400, 'DISPLAY_NAME must be 1 to 32 characters.'],
  MISSING_MAIN: [400, 'The configuration file has neither MAIN nor START.'],
  INVALID_MAIN: [400, 'MAIN must name an existing program file of a known language, in at most 32 characters.'],
  MISSING_MEMORY: [400, 'The configuration file has no MEMORY.'],
  INVALID_MEMORY: [400, 'MEMORY must be a whole number of MB from 256 (512 with SUBDOMAIN) to 32768.'],
  INSUFFICIENT_MEMORY: [400, 'The plan does not have enough memory left.'],
  MISSING_VERSION: [400, 'The configuration file has no VERSION.'],
  INVALID_VERSION: [400, 'VERSION must be recommended, latest, or a version that this platform offers.'],
  INVALID_DESCRIPTION: [400, 'DESCRIPTION must be at most 280 characters.'],
  INVALID_SUBDOMAIN: [400, 'SUBDOMAIN must be at most 63 letters, digits and inner hyphens.'],
  SUBDOMAIN_TAKEN: [400, 'This subdomain belongs to another application or is reserved.'],
  CANNOT_SET_SUBDOMAIN: [400, 'The subdomain is fixed when the application is created.'],
  INVALID_START: [400, 'START must be at most 256 characters.'],
  INVALID_AUTORESTART: [400, 'AUTORESTART must be true or false.'],
  INVALID_RUNTIME: [400, 'RUNTIME is not a known runtime, or START is set without MAIN or RUNTIME.'],
  MISSING_DEPENDENCIES_FILE: [400, 'The dependency file that this language needs is missing.'],
  ACCESS_DENIED: [401, 'The credential is missing, malformed, invalid or expired.'],
  MISSING_SCOPE: [403, 'The API key does not have the required scope.'],
  RESOURCE_NOT_ALLOWED: [403, 'The API key has no access to this resource.'],
  PERMISSION_DENIED: [403, 'Your role does not permit this.'],
  SCOPE_NOT_GRANTABLE: [403, 'The API key cannot grant a role with more rights than its own.'],
  RESTORE_IN_PROGRESS: [403, 'A snapshot is being restored.'],
  GITHUB_NOT_CONNECTED: [403, 'Your account is not connected to the git provider.'],
  REPOSITORY_NOT_AVAILABLE: [403, 'Your installation of the git app does not cover this repository.'],
  REPOSITORY_PERMISSION_REQUIRED: [403, 'Linking a repository needs permission to write to it.'],
  APIKEY_LIMIT_REACHED: [
    403,
    'The account has the maximum number of keys of this kind. Revoke one and try again after a minute.',
  ],
  DOWNGRADE_NOT_ALLOWED: [403, 'There is no lower plan, or the account uses more than it allows.'],
  BLOCKED_PATH: [403, 'Your role has no access to secret and configuration files.'],
  UPGRADE_REQUIRED: [403, 'Your plan does not include this.'],
  COUNTRY_BLOCKED: [403, 'This service is not available in your country.'],
  CAPTCHA_REQUIRED: [403, 'Solve the captcha first: sign in on the page of this platform.'],
  APP_NOT_FOUND: [404, 'The application does not exist.'],
  DELETE_ERROR: [404, 'The application could not be deleted on its host. Nothing was lost. Try again.'],
  DATABASE_NOT_FOUND: [404, 'The database does not exist.'],
  UNKNOWN_WORKSPACE: [404, 'The workspace does not exist.'],
  WORKSPACE_NOT_FOUND: [404, 'The workspace does not exist.'],
  MEMBER_NOT_FOUND: [404, 'The workspace has no such member.'],
  REPOSITORY_NOT_FOUND: [404, 'Your installation of the git app cannot see this repository.'],
  LOGS_UNAVAILABLE: [404, 'No logs are available yet.'],
  FILE_NOT_FOUND: [404, 'The file or directory does not exist.'],
  SNAPSHOT_NOT_FOUND: [404, 'The snapshot does not exist.'],
  SNAPSHOT_FAILED: [404, 'The snapshot could not be created.'],
  SNAPSHOT_RESTORE_FAILED: [404, 'The snapshot could not be restored. Nothing was changed.'],
  ROUTE_NOT_FOUND: [404, 'The route does not exist.'],
  CONTAINER_ALREADY_STARTED: [409, 'The application is already running.'],
  CONTAINER_ALREADY_STOPPED: [409, 'The application is already stopped.'],
  CONTAINER_TEMPORARILY_SUSPENDED: [409, 'The application is suspended.'],
  CONTAINER_NOT_FOUND: [409, 'The application has no container.'],
  CONTAINER_INSUFFICIENT_DISK_SPACE: [409, 'The host does not have enough disk space.'],
  CONTAINER_NETWORK_CONFLICT: [409, 'The port of the database is in use on its host.'],
  ACTION_FAILED: [409, 'The container host could not perform the action.'],
  REPOSITORY_BRANCH_ALREADY_CONFIGURED: [409, 'This branch of the repository is already linked to an application.'],
  ENV_BUSY: [409, 'Another request is changing the variables. Try again.'],
  SNAPSHOT_IN_PROGRESS: [409, 'A snapshot is being created.'],
  IDEMPOTENCY_KEY_REUSED: [409, 'This Idempotency-Key was already used for a different request.'],
  IDEMPOTENCY_IN_PROGRESS: [409, 'The first request with this Idempotency-Key is still running.'],
  PAYLOAD_TOO_LARGE: [413, 'The body is too large.'],
  FILE_TOO_LARGE: [413, 'The file is over 100 MB.'],
  INVALID_CONTENT_TYPE: [415, 'This content type is not accepted here.'],
  KEEP_CALM: [429, 'Too many requests of this kind. Wait for the time in Retry-After.'],
  CONFIRM_CODE_SENT: [429, 'A code was sent by mail and is still valid.'],
  RATE_LIMIT: [429, 'The request limit is reached. Wait for the time in Retry-After.'],
  DAILY_SNAPSHOTS_LIMIT_REACHED: [429, 'The plan allows no more snapshots within 24 hours.'],
  REALTIME_MAX_CONNECTIONS: [429, 'The account has the maximum number of open streams.'],
  REALTIME_MAX_CONNECTIONS_APP: [429, 'This application has the maximum number of open streams.'],
  SAVE_FAILED: [500, 'The file could not be saved.'],
  RESET_FAILED: [500, 'The credentials could not be replaced. Try again.'],
  INTERNAL_SERVER_ERROR: [500, 'An unexpected error occurred. Report the request id to find its cause.'],
  VALIDATION_FAILED: [502, 'The git provider refused the check.'],
  FAILED_TO_FETCH: [502, 'The git provider could not be reached. Try again.'],
  VALIDATION_TIMEOUT: [504, 'The git provider took too long. Try again.'],
  CLUSTER_TIMEOUT: [504, 'The container host took too long.'],
  CLUSTER_MAINTENANCE_TRY_LATER: [503, 'Provisioning is in maintenance. Try again later.'],
  UPLOAD_BUSY: [503, 'Too many uploads are being checked. Try again in a moment.'],
  DATABASE_UNAVAILABLE: [503, 'The database does not respond. Try again in a moment.'],
  CLUSTER_UNAVAILABLE: [503, 'The container host does not respond.'],
  DEPLOYMENT_NOT_FOUND: [404, 'The deployment does not exist.'],
  AUTHENTICATION_REQUIRED: [400, 'The git server requires an access token, or refused the stored one.'],
  INVALID_BRANCH: [400, 'The branch or commit of the push is not in the repository.'],
  CLONE_FAILED: [400, 'The repository could not be fetched. See the message of the deployment.'],
  REPOSITORY_TOO_LARGE: [400, 'The commit exceeds the maximum size.'],
  BUILD_FAILED: [400, 'Installing the dependencies failed. See the deployment log.'],
  HEALTH_CHECK_FAILED: [400, 'The program did not respond on its port in time, or exited immediately.'],
  DEPLOY_FAILED: [400, 'The deployment failed.'],
  DEPLOY_CANCELLED: [400, 'The deployment was cancelled.'],
  DEPLOY_SUPERSEDED: [400, 'A newer push to the same branch was queued.'],
  SNAPSHOT_CORRUPT: [400, 'The snapshot is damaged. Nothing was changed.'],
  RESTORE_INTERRUPTED: [400, 'The restore was interrupted. Nothing was changed.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type ErrorCode = keyof typeof managementErrors | keyof typeof blobErrors

/** The API whose codes an answer uses. */
export type Wire = 'management' | 'blob'

type Catalogue = Partial<Record<ErrorCode, readonly [status: number, message: string]>>
const catalogues: Record<Wire, Catalogue> = { management: managementErrors, blob: blobErrors }

/** Status and message of a code on a wire; a code that this wire lacks has those of the other. */
export function catalogueEntry(code: ErrorCode, wire: Wire = 'management'): readonly [status: number, message: string] {
  return catalogues[wire][code] ?? catalogues.management[code] ?? blobErrors[code as keyof typeof blobErrors]
}

/** What a wire answers in place of what was requested; the wires differ in their codes. */
export class Refusal extends Error {}

/** A refusal or failure with a code of the catalogue. `message` replaces the table's message where more is known. */
export class ApiError extends Refusal {
  constructor(
    readonly code: ErrorCode,
    message?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message ?? catalogueEntry(code)[1])
    this.name = 'ApiError'
  }

  get status(): number {
    return catalogueEntry(this.code)[0]
  }
}

/** A failure that the caller cannot have caused: its code is answered with 500 instead of the code's own status. */
export class UnexpectedFailure extends ApiError {
  override get status(): number {
    return unexpectedStatus
  }
}

/** The status of a failure that the caller cannot have caused. */
export const unexpectedStatus = 500

/** Codes that have another name on the blob wire (contract 10.3). */
const blobNames: Partial<Record<ErrorCode, ErrorCode>> = {
  KEEP_CALM: 'RATE_LIMITED',
  RATE_LIMIT: 'RATE_LIMITED',
  INVALID_JSON_BODY: 'INVALID_BODY',
  PAYLOAD_TOO_LARGE: 'FILE_TOO_LARGE',
  UPLOAD_ABORTED: 'UPLOAD_FAILED',
  ROUTE_NOT_FOUND: 'NOT_FOUND',
}

/** The name that a code has on a wire. */
export const codeOn = (wire: Wire, code: ErrorCode): ErrorCode => (wire === 'blob' ? (blobNames[code] ?? code) : code)

/** Message of DATABASE_UNAVAILABLE for a change that may have been made, and must not be retried blindly. Pages recognize it by this text. */
export const inDoubtMessage = 'The database did not confirm whether this was done. Check before you try again.'

/** An error on a wire, with the wire's name, status and, unless it has its own, message. */
export function errorOn(error: ApiError, wire: Wire): { code: ErrorCode; status: number; message: string } {
  const code = codeOn(wire, error.code)
  const [usual, sentence] = catalogueEntry(code, wire)
  const status = error instanceof UnexpectedFailure ? unexpectedStatus : usual
  return { code, status, message: error.message === catalogueEntry(error.code)[1] ? sentence : error.message }
}

/** True when a text is a code of a catalogue. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(managementErrors, text) || Object.hasOwn(blobErrors, text)
}
