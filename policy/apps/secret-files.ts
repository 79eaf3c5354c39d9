import { configNames } from './app-config.ts'

/** Names that hold secrets wherever they stand in a path (contract 2.6): the files, and what lies in a folder of the name. */
const secretNames = /^\.env$|^\.env\.|^\.config$/

/** Whether a path is the application's configuration file: `moreNames` are the installation's own names for it. */
export function isConfigFile(path: string, moreNames: readonly string[]): boolean {
  return (configNames as readonly string[]).includes(path) || moreNames.includes(path)
}

/** Whether roles without `secret_files` may neither see nor touch what lies at a path. */
export function isSecretFile(path: string, moreNames: readonly string[]): boolean {
  return path.split('/').some(name => secretNames.test(name)) || isConfigFile(path, moreNames)
}
