import type { Config } from '../../policy/config.ts'
import { keyBytes } from '../../policy/objects/object-names.ts'
import { S3Error } from '../../policy/s3/s3-errors.ts'
import type { SignedRequest } from './signature/signed-request.ts'

/** What a request is about: the service (no bucket), a bucket (no key), or an object. */
export interface Address {
  bucket: string | null
  key: string | null
}

/**
 * Reads the address of a request, path-style (`/bucket/key`) or virtual-host-style (`bucket.<host>/key`). `hosts` are the names under
 * which the gateway is reached, without a port. `/bucket` and `/bucket/` are the same; keys are not normalized, so `d//x` and `d/../x` are
 * two keys. Keys of more than 1024 bytes are KeyTooLongError, keys that no store can hold InvalidArgument.
 */
export function addressOf(request: SignedRequest, hosts: readonly string[]): Address {
  const own = bucketOfHost(request.header('host')[0] ?? '', hosts)
  const path = request.path.slice(1)
  const at = path.indexOf('/')
  const bucket = own ?? (at === -1 ? path : path.slice(0, at))
  const key = own === null ? (at === -1 ? '' : path.slice(at + 1)) : path
  if (key !== '') assertKey(key)
  return { bucket: bucket || null, key: key || null }
}

/** Throws KeyTooLongError for a key that is too long, and InvalidArgument for one that Postgres cannot hold. */
export function assertKey(key: string): void {
  const bytes = Buffer.byteLength(key)
  if (bytes > keyBytes)
    throw new S3Error('KeyTooLongError', undefined, { Size: String(bytes), MaxSizeAllowed: String(keyBytes) })
  if (key.includes('\0')) throw new S3Error('InvalidArgument', 'A key must not contain the character NUL.')
}

/** `bucket` of `bucket.<host>[:port]`; null when the host has no bucket before it. Names of buckets may contain dots. */
function bucketOfHost(header: string, hosts: readonly string[]): string | null {
  const name = header.toLowerCase().replace(/:\d+$/, '')
  if (hosts.includes(name)) return null
  const host = hosts.find(own => name.endsWith(`.${own}`))
  return host === undefined ? null : name.slice(0, -host.length - 1)
}

/** The names under which clients reach the gateway: that of its address, and those of the proxy. */
export function hostsOf({ urls, edge }: Pick<Config, 'urls' | 'edge'>): readonly string[] {
  const names = [new URL(urls.s3).hostname, `s3.${edge.domain}`, edge.names.s3]
  // An address of digits has no names below it.
  return names.filter((name): name is string => name !== undefined && !/^[\d.]+$|^\[/.test(name))
}
