import type { ErrorCode } from './errors.ts'
import type { Language } from './runtimes.ts'

/** The configuration file of an archive after parsing and checking (contract 5). Texts are as written, trimmed. */
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
  /** The version of the runtime that `version` stands for on this platform, for example `22`. */
  runtimeVersion: string
}

export class ConfigRefused extends Error {
  override name = 'ConfigRefused'
  constructor(
    readonly code: ErrorCode,
    message: string,
  ) {
    super(message)
  }
}
