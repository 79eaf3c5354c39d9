import { type Digest, shaDigestOf } from './documents.ts'

const part = '[\\w.-]+'
const archivePath = new RegExp(`^gems/(${part})\\.gem$`)
const documentPath = new RegExp(`^(?:(info)/(${part})|quick/Marshal\\.\\d+\\.\\d+/${part}\\.gemspec\\.rz)$`)
/** Lists of all gems, and of all their versions. */
const listPaths: readonly string[] = ['names', 'versions']

export type GemPath =
  /** Name, version and platform of a gem, joined by dashes. */
  | { kind: 'archive'; file: string }
  /** What the index says about a gem. */
  | { kind: 'info'; name: string }
  | { kind: 'document' | 'list' }

/** What a path of a compact index of gems stands for; null for what bundler does not request. */
export function gemPath(path: string): GemPath | null {
  if (listPaths.includes(path)) return { kind: 'list' }
  const [, file] = archivePath.exec(path) ?? []
  if (file !== undefined) return { kind: 'archive', file }
  const [match, info, name] = documentPath.exec(path) ?? []
  if (info !== undefined && name !== undefined) return { kind: 'info', name }
  return match === undefined ? null : { kind: 'document' }
}

/** Digests of the archives of a gem, by version and platform, in what the index says about it. */
export function gemDigests(info: string): Map<string, Digest> {
  const digests = new Map<string, Digest>()
  for (const line of info.split('\n')) {
    const [, version = '', requirements = ''] = /^(\d[\w.-]*) [^|]*\|(.*)$/.exec(line) ?? []
    const checksum = requirements.split(',').find(one => one.startsWith('checksum:')) ?? ''
    const digest = shaDigestOf('sha256', checksum.slice('checksum:'.length))
    if (version !== '' && digest) digests.set(version, digest)
  }
  return digests
}

/** The gems that a file may be of, with their version and platform: a name and a platform may contain what looks like a version. */
export function gemsOf(file: string): { name: string; version: string }[] {
  return [...file.matchAll(/-(?=\d)/g)]
    .slice(0, maxGems)
    .map(({ index }) => ({ name: file.slice(0, index), version: file.slice(index + 1) }))
    .filter(({ name }) => name !== '')
}

/** Each is looked up where the registry names no digest for the one before. */
const maxGems = 4
