import { type ObjectName, objectId, objectName } from './object-names.ts'

/** The public address of an object; null for a private one (contract 7.22). */
export function publicUrlOf(publicUrl: string, name: ObjectName): string | null {
  if (name.bucket !== 'public' && name.bucket !== 'legacy') return null
  return `${publicUrl}/${objectId(name).split('/').map(encodeURIComponent).join('/')}`
}

/** The public object of a request's path on the public surface; undefined when there can be none. */
export function publicNameOf(url: string): ObjectName | undefined {
  try {
    const name = objectName(decodeURIComponent(pathOf(url)))
    return name?.bucket === 'private' ? undefined : name
  } catch {
    return undefined // not UTF-8, or an invalid percent encoding
  }
}

/** The path of a request without its leading slash and query, still encoded. */
export const pathOf = (url: string): string => (url.split('?')[0] ?? '').slice(1)
