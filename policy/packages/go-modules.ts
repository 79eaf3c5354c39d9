import type { Digest } from './documents.ts'

/** Name of the checksum database that the go command uses by default. The cache requests what it says from the module proxy. */
export const goChecksums = 'sum.golang.org'

/** A version of a module, as it is named in paths: a capital letter as an exclamation mark and its small one. */
export interface ModuleFile {
  module: string
  version: string
  /** The archive of its sources, or its go.mod. */
  file: 'zip' | 'mod'
}

const part = '[\\w.~!+-]+'
const modulePath = `${part}(?:/${part})*`
const filePath = new RegExp(`^(${modulePath})/@v/(${part})\\.(zip|mod)$`)
const documentPath = new RegExp(`^(?:${modulePath}/@v/(?:list|${part}\\.info)|${modulePath}/@latest)$`)
const checksumPath = new RegExp(
  `^sumdb/${goChecksums.replaceAll('.', '\\.')}/(?:supported|latest|lookup/${modulePath}@${part}|tile/\\d+/(?:data|\\d+)(?:/x\\d{3})*/\\d{3}(?:\\.p/\\d+)?)$`,
)

/** What a path of a module proxy stands for that never changes; null for anything else. */
export function moduleFileAt(path: string): ModuleFile | null {
  const [, module = '', version = '', file] = filePath.exec(path) ?? []
  return file === 'zip' || file === 'mod' ? { module, version, file } : null
}

/** Whether a path of a module proxy stands for a document: about versions, or of the checksum database. */
export const isModuleDocument = (path: string): boolean => documentPath.test(path) || checksumPath.test(path)

/** Path of what the checksum database says about a version of a module. */
export const checksumsOf = ({ module, version }: ModuleFile): string =>
  `sumdb/${goChecksums}/lookup/${module}@${version}`

const plain = (escaped: string): string => escaped.replace(/!([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The digest of a file of a module in what the checksum database says about that version; null where it has none. */
export function moduleDigest(record: string, { module, version, file }: ModuleFile): Digest | null {
  const start = `${plain(module)} ${plain(version)}${file === 'mod' ? '/go.mod' : ''} h1:`
  const line = record.split('\n').find(one => one.startsWith(start)) ?? ''
  const hex = Buffer.from(line.slice(start.length), 'base64').toString('hex')
  return hex.length === 64 ? { algorithm: `h1-${file}`, hex } : null
}
