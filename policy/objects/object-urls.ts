import { type ObjectName, objectId, objectName } from './object-names.ts'

/** Where everybody can read an object; null for a private one (contract 7.22). */
export function publicUrlOf(publicUrl: string, name: ObjectName): string | null {
  if (name.bucket === 'private') return null
  return `${publicUrl}/${objectId(name).split('/').map(encodeURIComponent).join('/')}`
}

/** The public object that an address of the public surface names, as it came on the wire; undefined where there can be none. */
export function publicNameOf(url: string): ObjectName | undefined {
  try {
    const name = objectName(decodeURIComponent(pathOf(url)))
    return name?.bucket === 'private' ? undefined : name
  } catch {
    return undefined // Not UTF-8, or a percent sign that begins nothing.
  }
}

/** The path of a request's address without its first slash and its query, as it was sent. */
export const pathOf = (url: string): string => (url.split('?')[0] ?? '').slice(1)
