import { configNames } from './app-config.ts'

/** Names of secret files anywhere in a path (contract 2.6): files of the name, and everything in a folder of the name. */
const secretNames = /^\.env$|^\.env\.|^\.config$/

/** Whether a path is the application's configuration file: `moreNames` are the installation's own names for it. */
export function isConfigFile(path: string, moreNames: readonly string[]): boolean {
  return (configNames as readonly string[]).includes(path) || moreNames.includes(path)
}

/** Whether roles without `secret_files` may neither read nor change the file at a path. */
export function isSecretFile(path: string, moreNames: readonly string[]): boolean {
  return path.split('/').some(name => secretNames.test(name)) || isConfigFile(path, moreNames)
}
