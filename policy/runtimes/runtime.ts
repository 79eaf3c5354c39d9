export const languages = [
  'javascript',
  'typescript',
  'python',
  'java',
  'elixir',
  'go',
  'rust',
  'ruby',
  'php',
  'dotnet',
  'static',
] as const

export type Language = (typeof languages)[number]

/** The sources before the install step. `files` are the names at their root that match `namesForInstall`. */
export interface Sources {
  files: readonly string[]
  /** The program file, or null when the application has START and RUNTIME only. */
  main: string | null
}

/**
 * The files on which an install step depends entirely, so that its result can be used again with equal ones, or why it depends
 * on more. Without `isPinned` the result also depends on the time.
 */
export type InstallInputs =
  | {
      files: readonly string[]
      isPinned: boolean
      /** Only `dependedOnMore` shows that it depended on no more. */
      isShownAfter?: true
    }
  | { because: string }

/** How programs of one language run: a row of the table in `policy/runtimes.ts`. */
export interface Runtime {
  language: Language
  /** Name shown to people. */
  title: string
  /** Extensions of MAIN, without dot. */
  extensions: readonly string[]
  /** Values of RUNTIME. */
  aliases: readonly string[]
  /** Versions offered, newest first. */
  versions: readonly string[]
  /** The full version behind a version, where the platform pins it. */
  full?: Readonly<Record<string, string>>
  recommended: string
  latest: string
  /** Names at the root that list dependencies; `*.x` is any file of that extension. */
  dependencyFiles: readonly string[]
  /** Further names at the root that decide what is installed, such as lock files. */
  lockFiles?: readonly string[]
  /** Whether a program without such a file is refused (MISSING_DEPENDENCIES_FILE). */
  dependenciesRequired: boolean
  /** Value of PORT for web applications. */
  defaultPort: number
  /** Image the application runs in. Names under `berth/` are pulled as `official` or built from the recipes in `runtimes/`. */
  image(version: string): string
  /** Image the install step runs in. */
  buildImage(version: string): string
  /** The official image that an image under `berth/` stands for; null when `image` is the official name itself. */
  official(version: string): string | null
  /** Shell script of the build container, run in /app, which contains the sources; null = nothing to install, no build. */
  install(sources: Sources): string | null
  /**
   * Whether a dependency file, with these names at the root, requests nothing: then there is no install step. Text that it cannot read
   * requests something, and the tool reports what is wrong with it. Missing: the step is always needed, as it also makes something else.
   */
  requestsNothing?(dependencyFile: string, names: readonly string[]): boolean
  /** Further names at the root that `installInputs` looks for: settings of the tools, and what they find installed. */
  inputNames?: readonly string[]
  /**
   * Which names in folders below the root `install` may read too, from the dependency file at the root, '' for one that cannot be read, and the
   * names there; null, or missing: none.
   */
  memberNames?(dependencyFile: string, names: readonly string[]): ((name: string) => boolean) | null
  /**
   * What `install` depends on, from the texts of all dependency files, lock files and `inputNames` at the root; null for what is no plain
   * file, or is too large. Missing: it builds from the sources.
   */
  installInputs?(texts: ReadonlyMap<string, string | null>): InstallInputs
  /**
   * Folders in which the tools of `install` store what a later build of the same application can use, as paths in the build container.
   * Those in /app are removed after the step. Missing: none.
   */
  toolFolders?: readonly string[]
  /**
   * The lock file at the root that the step writes where none is there, and which no longer fits a manifest with one package more: a later
   * step would fail. Missing: its tool writes none, or brings it up to date itself.
   */
  writtenLock?: string
  /** A file in the output of the step with these files that says what was installed. */
  installReport?(names: readonly string[]): string
  /** Where the inputs of a step may be `isShownAfter`: why it depended on more than it saw, from its report; null when it did not. */
  dependedOnMore?(report: string | null): string | null
  /**
   * Why a step that succeeded is not known to have installed everything, from the texts of its dependency and lock files, that of the
   * `writtenLock`, its report and the architecture as Node names it; null when it has. Missing: a step that succeeds has.
   */
  leftOut?(
    texts: ReadonlyMap<string, string>,
    written: string | null,
    report: string | null,
    architecture: string,
  ): string | null
  /** What install creates in /app (`from`) and where it is mounted for the application, read-only (`at`). */
  dependencies: { from: string; at: string } | null
  /** Shell command that starts `main` in /app. `hidden` are names that a static site must not serve (its configuration files). */
  start(main: string, hidden?: readonly string[]): string
  /** Default variables, which those of the application override. */
  env: Readonly<Record<string, string>>
}

/** A shell word that evaluates to exactly this text. */
export function quotedShell(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A file of the application as a shell word that cannot be taken for an option. */
export function fileWord(path: string): string {
  return quotedShell(path.startsWith('-') ? `./${path}` : path)
}
