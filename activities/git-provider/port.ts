/** A person at the git provider, and the installations of the platform's app that this person may see. */
export interface Visitor {
  id: number
  login: string
  installations: Installation[]
}

export interface Installation {
  id: number
  /** Login of the person or organization it is installed for. */
  account: string
}

interface InstallationToken {
  token: string
  /** Whether it may read the contents of repositories. */
  readsContents: boolean
}

export interface Repository {
  id: number
  /** In the provider's spelling: owner/name. */
  fullName: string
  cloneUrl: string
}

interface Membership {
  memberId: number
  writes: boolean
}

/**
 * The platform's app at a git provider. Every request takes a deadline and rejects with an CodedError: VALIDATION_TIMEOUT past it,
 * FAILED_TO_FETCH when the provider is unreachable or too busy, VALIDATION_FAILED when its answer is invalid.
 * Repository names must be checked before (`isRepositoryName`).
 */
export interface GitProvider {
  /** Whether the provider accepts the app's signature and knows the app by it. */
  knowsApp(deadline: AbortSignal): Promise<boolean>
  /** Whether the provider accepts the client's secret; null when its answer does not show it. */
  knowsClient(deadline: AbortSignal): Promise<boolean | null>
  /** URL at which a person installs the app; the provider sends them back with `state`. */
  installPage(state: string): string
  /** URL at which a person signs in; the provider sends them back to `returnUrl` with `state` and a code. */
  signInPage(state: string, returnUrl: string): string
  /** The person of this code; null when it is used, expired or invalid. */
  visitor(code: string, returnUrl: string, deadline: AbortSignal): Promise<Visitor | null>
  /** The installation that covers a repository, or null. */
  installationOf(repositoryName: string, deadline: AbortSignal): Promise<number | null>
  /**
   * A token of an installation, valid for an hour; null when the installation is deleted or suspended. With a repository, the
   * token can only read the contents of that one.
   */
  tokenOf(installationId: number, deadline: AbortSignal, repositoryId?: number): Promise<InstallationToken | null>
  /** The repository as the token sees it; null = not visible. */
  repository(token: string, repositoryName: string, deadline: AbortSignal): Promise<Repository | null>
  /** A person's rights in a repository; null when the provider does not know the person. */
  membership(token: string, repositoryName: string, login: string, deadline: AbortSignal): Promise<Membership | null>
  hasBranch(token: string, repositoryName: string, branch: string, deadline: AbortSignal): Promise<boolean>
  /** False when the provider does not accept a personal access token. */
  knowsToken(token: string, deadline: AbortSignal): Promise<boolean>
}
