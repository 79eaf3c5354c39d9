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

export interface InstallationToken {
  token: string
  /** Whether it may read what repositories contain. */
  readsContents: boolean
}

export interface Repository {
  id: number
  /** As the provider writes it: owner/name. */
  fullName: string
  cloneUrl: string
}

export interface Membership {
  memberId: number
  writes: boolean
}

/**
 * The platform's app at a git provider. Every question takes the moment at which it is given up, and rejects with an ApiError:
 * VALIDATION_TIMEOUT past it, FAILED_TO_FETCH when the provider is away or too busy, VALIDATION_FAILED when its answer makes no
 * sense. Repository names are checked ones (`isRepositoryName`).
 */
export interface GitProvider {
  /** Whether the provider takes what the app's key signs, and knows the app by it. */
  knowsApp(deadline: AbortSignal): Promise<boolean>
  /** Whether it takes the client's secret; null when it does not say. */
  knowsClient(deadline: AbortSignal): Promise<boolean | null>
  /** Where a person installs the app; the provider sends them back with `state`. */
  installPage(state: string): string
  /** Where a person says who they are; the provider sends them back to `returnUrl` with `state` and a code. */
  signInPage(state: string, returnUrl: string): string
  /** Whose code this is; null when it is spent, too old or no code at all. */
  visitor(code: string, returnUrl: string, deadline: AbortSignal): Promise<Visitor | null>
  /** The installation that covers a repository, or null. */
  installationOf(repositoryName: string, deadline: AbortSignal): Promise<number | null>
  /**
   * A token of an installation, good for an hour; null when the installation is gone or suspended. With a repository it can
   * do no more than read that one's contents.
   */
  tokenOf(installationId: number, deadline: AbortSignal, repositoryId?: number): Promise<InstallationToken | null>
  /** What a token sees of a repository; null = nothing. */
  repository(token: string, repositoryName: string, deadline: AbortSignal): Promise<Repository | null>
  /** What a person may do to a repository; null when the provider knows no such person. */
  membership(token: string, repositoryName: string, login: string, deadline: AbortSignal): Promise<Membership | null>
  hasBranch(token: string, repositoryName: string, branch: string, deadline: AbortSignal): Promise<boolean>
  /** False when the provider does not know a personal access token. */
  knowsToken(token: string, deadline: AbortSignal): Promise<boolean>
}
