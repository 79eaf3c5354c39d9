import { isShownName, readsAsWritten } from '../../lib/shown-names.ts'
import type { ErrorCode } from '../errors.ts'
import { dependencyFile, type Language, languageOfMain, languageOfRuntime, offered, runtimes } from '../runtimes.ts'
import { type ConfigKey, type ConfigLines, readLines } from './app-config-lines.ts'
import { isReservedSubdomain } from './subdomains.ts'

/** The configuration file of an archive after parsing and checking (contract 5.3). Texts are as written, trimmed. */
export interface AppConfigFile {
  displayName: string
  description: string | null
  main: string | null
  memoryMb: number
  /** Lower case: `recommended`, `latest` or a number. */
  version: string
  subdomain: string | null
  start: string | null
  autorestart: boolean
  /** RUNTIME as written, lower case, or null. */
  runtime: string | null
  language: Language
  /** Path whose answer says whether the program works (HEALTH), or null. */
  health: string | null
  /** The version of the runtime that `version` stands for on this platform, for example `22`. */
  runtimeVersion: string
}

/** The files that a configuration file refers to: those of its archive, or of the application that it is written into. */
export interface ProgramFiles {
  /** Whether this path, relative to the root and separated by `/`, is a file. */
  has(path: string): boolean
  /** File names at the root, which is searched for dependency files. */
  rootNames: readonly string[]
  /** True when the application already has other files: one that is not among these may still exist. */
  partial?: boolean
}

/** The runtime version that VERSION stands for on the application's host, or null when the host does not offer it. */
export type VersionChoice = (language: Language, version: string) => string | null

export class ConfigRefused extends Error {
  override name = 'ConfigRefused'
  constructor(
    readonly code: ErrorCode,
    message: string,
  ) {
    super(message)
  }
}

/** Names of the configuration file, in the order of the search, before an installation's own. */
export const configNames = ['berth.app', 'berth.config'] as const

export const memoryLimits = { minMb: 256, minWithAddressMb: 512, maxMb: 32_768 } as const

/**
 * Parses a configuration file. Keys are checked in the order of contract 5.3 and the first refusal is thrown as `ConfigRefused`; only the
 * version is checked once the language is known. Whether the subdomain is free and the plan large enough is checked elsewhere.
 */
export function parseAppConfig(text: string, files: ProgramFiles, choose: VersionChoice = offered): AppConfigFile {
  const lines = readLines(text)
  const displayName = required(lines, 'DISPLAY_NAME', 'MISSING_DISPLAY_NAME', 'DISPLAY_NAME is missing.')
  if (length(displayName) > 32 || unclean(displayName) || !isShownName(displayName))
    refuse(
      'INVALID_DISPLAY_NAME',
      'DISPLAY_NAME must be 1 to 32 printable characters, none of which changes the direction of text.',
    )
  const main = mainOf(lines, files)
  const memoryMb = memoryOf(lines)
  const version = versionOf(lines, choose)
  const description = descriptionOf(lines)
  const subdomain = subdomainOf(lines)
  const start = optional(lines, 'START', 256, 'INVALID_START')
  const autorestart = autorestartOf(lines)
  const language = languageOf(lines)
  const runtimeVersion = choose(language, version) ?? refuseVersion(language, version)
  const complete = files.partial || dependencyFile(language, files.rootNames) !== null
  if (runtimes[language].dependenciesRequired && !complete)
    refuse(
      'MISSING_DEPENDENCIES_FILE',
      `${runtimes[language].title} needs ${runtimes[language].dependencyFiles.join(' or ')} at the root.`,
    )
  const runtime = lines.RUNTIME?.toLowerCase() ?? null
  const health = healthOf(lines)
  return {
    displayName,
    description,
    main,
    memoryMb,
    version,
    subdomain,
    start,
    autorestart,
    runtime,
    language,
    health,
    runtimeVersion,
  }
}

/** MAIN without a leading `./`. It must exist if it is what runs; with START it only determines the language. */
function mainOf(lines: ConfigLines, files: ProgramFiles): string | null {
  if (lines.MAIN === undefined) {
    if (lines.START === undefined) refuse('MISSING_MAIN', 'Neither MAIN nor START is given.')
    return null
  }
  const main = lines.MAIN.replace(/^(\.\/)+/, '')
  const folders = main.split('/').slice(0, -1)
  if (length(lines.MAIN) > 32) refuse('INVALID_MAIN', 'MAIN must be at most 32 characters.')
  if (
    unclean(main) ||
    folders.some(folder => folder.startsWith('.') || folder === 'node_modules' || folder === '__pycache__')
  )
    refuse('INVALID_MAIN', 'MAIN must not lie in node_modules, __pycache__ or a folder that starts with a dot.')
  if (lines.START === undefined && !files.partial && !files.has(main))
    refuse('INVALID_MAIN', `MAIN names ${main}, which is not in the archive; upper and lower case count.`)
  if (lines.RUNTIME === undefined && languageOfMain(main) === null)
    refuse('INVALID_MAIN', 'MAIN has no extension of a known language; RUNTIME can name one.')
  return main
}

function memoryOf(lines: ConfigLines): number {
  const text = required(lines, 'MEMORY', 'MISSING_MEMORY', 'MEMORY is missing.')
  const minMb = lines.SUBDOMAIN === undefined ? memoryLimits.minMb : memoryLimits.minWithAddressMb
  const memoryMb = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN
  if (!(memoryMb >= minMb && memoryMb <= memoryLimits.maxMb))
    refuse('INVALID_MEMORY', `MEMORY must be a whole number of MB from ${minMb} to ${memoryLimits.maxMb}.`)
  return memoryMb
}

/** Lower case. Checked against the language's row if the language is known already; RUNTIME is checked later. */
function versionOf(lines: ConfigLines, choose: VersionChoice): string {
  const version = required(lines, 'VERSION', 'MISSING_VERSION', 'VERSION is missing.').toLowerCase()
  if (!/^(recommended|latest|\d+(\.\d+){0,2})$/.test(version))
    refuse('INVALID_VERSION', 'VERSION must be recommended, latest or a number such as 22.')
  const language = lines.RUNTIME === undefined ? languageOfMain(lines.MAIN ?? '') : languageOfRuntime(lines.RUNTIME)
  if (language !== null && choose(language, version) === null) refuseVersion(language, version)
  return version
}

function descriptionOf(lines: ConfigLines): string | null {
  const description = optional(lines, 'DESCRIPTION', 280, 'INVALID_DESCRIPTION')
  if (description !== null && !readsAsWritten(description.replaceAll('\t', ' ')))
    refuse('INVALID_DESCRIPTION', 'DESCRIPTION must be one line, without characters that change the direction of text.')
  return description
}

function subdomainOf(lines: ConfigLines): string | null {
  if (lines.SUBDOMAIN === undefined) return null
  if (!/^(?!-)[A-Za-z0-9-]{1,63}(?<!-)$/.test(lines.SUBDOMAIN))
    refuse('INVALID_SUBDOMAIN', 'SUBDOMAIN must be at most 63 letters, digits and inner hyphens.')
  const subdomain = lines.SUBDOMAIN.toLowerCase()
  if (isReservedSubdomain(subdomain)) refuse('SUBDOMAIN_TAKEN', `The subdomain ${subdomain} is reserved.`)
  return subdomain
}

function autorestartOf(lines: ConfigLines): boolean {
  const word = lines.AUTORESTART?.toLowerCase() ?? 'false'
  if (word !== 'true' && word !== 'false') refuse('INVALID_AUTORESTART', 'AUTORESTART must be true or false.')
  return word === 'true'
}

/** Sent as it is written, so it has only characters that a request line may have. Whether the application has an address is checked elsewhere. */
function healthOf({ HEALTH: path }: ConfigLines): string | null {
  if (path === undefined) return null
  if (path.length > 256 || !/^\/[\x21\x22\x24-\x7e]*$/.test(path))
    refuse(
      'INVALID_HEALTH',
      'HEALTH must be a path that starts with /, of at most 256 printable ASCII characters without spaces and #.',
    )
  return path
}

function languageOf(lines: ConfigLines): Language {
  if (lines.RUNTIME !== undefined)
    return languageOfRuntime(lines.RUNTIME) ?? refuse('INVALID_RUNTIME', 'RUNTIME is not a known runtime.')
  return languageOfMain(lines.MAIN ?? '') ?? refuse('INVALID_RUNTIME', 'START without MAIN needs RUNTIME.')
}

function refuseVersion(language: Language, version: string): never {
  const { title, versions } = runtimes[language]
  return refuse(
    'INVALID_VERSION',
    `${title} ${version} is not offered here; VERSION must be one of ${versions.join(', ')}.`,
  )
}

function required(lines: ConfigLines, key: ConfigKey, missing: ErrorCode, message: string): string {
  return lines[key] ?? refuse(missing, message)
}

function optional(lines: ConfigLines, key: ConfigKey, maxLength: number, invalid: ErrorCode): string | null {
  const text = lines[key]
  if (text === undefined) return null
  if (length(text) > maxLength || unclean(text))
    refuse(invalid, `${key} must be at most ${maxLength} printable characters.`)
  return text
}

/** Characters as people count them in a form: code points, not bytes or UTF-16 units. */
function length(text: string): number {
  return [...text].length
}

/** Control characters and lone surrogates cannot be stored; U+FFFD stands for bytes that are not UTF-8. */
function unclean(text: string): boolean {
  return /[\u0000-\u0008\u000a-\u001f\u007f\ufffd]/.test(text) || /\p{Surrogate}/u.test(text)
}

function refuse(code: ErrorCode, message: string): never {
  throw new ConfigRefused(code, message)
}
