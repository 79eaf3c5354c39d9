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

/** What the sources hold when they are about to be installed. `files` are those of `namesForInstall` that lie at their root. */
export interface Sources {
  files: readonly string[]
  /** The program file, or null when the application has START and RUNTIME only. */
  main: string | null
}

/** How programs of one language run: a row of the table in `policy/runtimes.ts`. */
export interface Runtime {
  language: Language
  /** Name shown to people. */
  title: string
  /** Extensions of MAIN, without dot. */
  extensions: readonly string[]
  /** Words of RUNTIME. */
  aliases: readonly string[]
  /** Versions offered, newest first. */
  versions: readonly string[]
  /** The full version behind a version, where the platform pins it. */
  full?: Readonly<Record<string, string>>
  recommended: string
  latest: string
  /** Names at the root that say what is to be installed; `*.x` is any file of that extension. */
  dependencyFiles: readonly string[]
  /** Further names at the root that `install` looks for. */
  lockFiles?: readonly string[]
  /** Whether a program without such a file is refused (MISSING_DEPENDENCIES_FILE). */
  dependenciesRequired: boolean
  /** Port a web application is told in PORT. */
  defaultPort: number
  /** Image the application runs in. Names under `berth/` are pulled as `official` or made by the recipes in `runtimes/`. */
  image(version: string): string
  /** Image the install step runs in. */
  buildImage(version: string): string
  /** The official image that an image under `berth/` stands for; null when `image` is the official name itself. */
  official(version: string): string | null
  /** Shell text for the build container, run in /app, which holds the sources; null = nothing to install, no build at all. */
  install(sources: Sources): string | null
  /** What install leaves in /app (`from`) and where the application finds it, read-only (`at`). */
  dependencies: { from: string; at: string } | null
  /** Shell command that starts `main` in /app. `hidden` are names a static site must not serve (its configuration files). */
  start(main: string, hidden?: readonly string[]): string
  /** Variables that the application's own may replace. */
  env: Readonly<Record<string, string>>
}

/** A word of shell that stands for exactly this text. */
export function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A file of the application as a shell word that no program takes for an option. */
export function fileWord(path: string): string {
  return quoted(path.startsWith('-') ? `./${path}` : path)
}
