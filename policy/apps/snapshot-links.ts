import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'

/** The snapshot that a signed link is for. */
export interface LinkedSnapshot {
  kind: 'applications' | 'databases'
  ownerId: string
  name: string
  version: string
}

/** How long a link is valid after its snapshot was requested, in seconds: as long as the snapshot is stored (contract 6.18). */
export const linkSeconds = 30 * 86_400

export const linkSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'snapshot-links')

/** When a snapshot's links expire, in whole seconds: the same for every listing, so that links do not change. */
export const expiryOf = (createdAt: Date): number => Math.floor(createdAt.getTime() / 1000) + linkSeconds

/** The signed query string of a link (contract 6.18): existing clients append it to the name themselves. */
export function linkKey(secret: Buffer, snapshot: LinkedSnapshot, expires: number): string {
  const signature = signatureOf(secret, signed(snapshot, String(expires)))
  return `Expires=${expires}&Signature=${signature}&versionId=${snapshot.version}`
}

/** The path below `files_url`, without the query string. */
export function linkPath({ kind, ownerId, name }: Omit<LinkedSnapshot, 'version'>): string {
  return `/${kind}/${ownerId}/${name}.zip`
}

const pathForm = /^\/(applications|databases)\/(\d{18})\/([a-z0-9_.-]{1,128})\.zip$/

/** The snapshot of a path and query on the files surface; null when they are malformed, forged, or expired. */
export function readLink(secret: Buffer, url: string, now: Date): LinkedSnapshot | null {
  const [path = '', query = '', ...rest] = url.split('?')
  const [, kind, ownerId, name] = pathForm.exec(path) ?? []
  const fields = new URLSearchParams(query)
  const [expires, signature, version] = ['Expires', 'Signature', 'versionId'].map(field => onlyOne(fields, field))
  if (!kind || !ownerId || !name || rest.length > 0 || !expires || !signature || !version) return null
  const snapshot: LinkedSnapshot = { kind: kind as LinkedSnapshot['kind'], ownerId, name, version }
  if (!isSignatureOf(secret, signed(snapshot, expires), signature)) return null
  return Number(expires) * 1000 > now.getTime() ? snapshot : null
}

/** A repeated field is ambiguous. */
function onlyOne(fields: URLSearchParams, field: string): string | undefined {
  const [value, ...others] = fields.getAll(field)
  return others.length === 0 ? value : undefined
}

const signed = ({ kind, ownerId, name, version }: LinkedSnapshot, expires: string): string =>
  [kind, ownerId, name, version, expires].join('\n')
