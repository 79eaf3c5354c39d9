import { type Digest, shaDigestOf } from './documents.ts'

const part = '[\\w.+~-]+'
const filePath = new RegExp(`^(?:${part}/)+(${part})/(${part})/(${part})$`)
/** What lists versions and plugins, and what says which groups a repository has. */
const metadataPath = new RegExp(`^(?:(?:${part}/)+maven-metadata\\.xml|\\.meta/prefixes\\.txt)$`)
const beside = /\.(?:md5|sha1|sha256|sha512|asc)$/

/**
 * What a path of a repository of Maven stands for: an archive is a file of a release, which never changes, and a checksum the file with its
 * SHA-1. Null for what no build requests.
 */
export function repositoryFile(path: string): 'archive' | 'checksum' | 'document' | null {
  const of = path.replace(beside, '')
  if (metadataPath.test(of)) return 'document' // also in a folder of the name `maven`, where its name looks like that of an archive
  const [, artifact = '', version = '', name = ''] = filePath.exec(of) ?? []
  const isOfVersion = name.startsWith(`${artifact}-`) && artifact !== ''
  if (!isOfVersion) return null
  // A snapshot changes; what else lies next to an archive has no digest, or is one that Maven does not request by itself.
  if (/SNAPSHOT$/i.test(version) || beside.test(of)) return 'document'
  if (of === path) return 'archive'
  return path.endsWith('.sha1') ? 'checksum' : 'document'
}

/** The digest in the file next to an archive, where Maven reads it: in the first line, before a name or after a sign of equality. */
export function checksumIn(text: string): Digest | null {
  const [line = ''] = text.slice(0, 1000).trimStart().split('\n')
  return shaDigestOf('sha1', /^(?:.*= )?([0-9a-f]{40})(?:\s|$)/i.exec(line)?.[1] ?? '')
}
