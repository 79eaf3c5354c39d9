/** Why a name is refused: it points elsewhere (INVALID_FILE), or cannot be a name here (INVALID_FILENAME). */
export interface NameFault {
  code: 'INVALID_FILE' | 'INVALID_FILENAME'
  message: string
}

export const nameLimits = { segmentBytes: 255, pathBytes: 4096, levels: 128 } as const

export interface RawName {
  bytes: Buffer
  /** General purpose bit 11. */
  utf8: boolean
  /** Created on a system whose file names are UTF-8; several tools there do not set bit 11. */
  unix: boolean
}

/**
 * The text of a stored name, or null when it is declared as UTF-8 and is not. Names without declaration are code page 437, unless they
 * come from Unix and are valid UTF-8: a wrong guess there would show as mojibake.
 */
export function decodeName({ bytes, utf8, unix }: RawName): string | null {
  if (bytes.every(byte => byte < 0x80)) return bytes.toString('latin1')
  const text = utf8 || unix ? strictUtf8(bytes) : null
  return (
    text ??
    (utf8 ? null : [...bytes].map(byte => (byte < 0x80 ? String.fromCharCode(byte) : cp437[byte - 0x80])).join(''))
  )
}

/**
 * The path of an entry, relative, with `/` between segments and none at the end; empty for the root itself. Backslashes are separators
 * too, because some Windows tools write them. A name that points outside of the archive is a fault.
 */
export function entryPath(name: string): { path: string; folder: boolean } | NameFault {
  const slashed = name.replaceAll('\\', '/')
  const segments = slashed.split('/').filter(segment => segment !== '' && segment !== '.')
  if (slashed.startsWith('/') || /^[A-Za-z]:/.test(slashed) || segments.includes('..'))
    return {
      code: 'INVALID_FILE',
      message: `The archive contains a name that points outside of it: ${shownName(name)}`,
    }
  return { path: segments.join('/'), folder: /(^|\/)\.?$/.test(slashed) }
}

/** Why a path cannot be a name in the application's folder; null when it can. */
export function nameFault(path: string): NameFault | null {
  const segments = path.split('/')
  const fault = /[\u0000-\u001f\u007f]/.test(path)
    ? 'contains control characters'
    : segments.some(segment => Buffer.byteLength(segment) > nameLimits.segmentBytes)
      ? `has a part over ${nameLimits.segmentBytes} bytes`
      : Buffer.byteLength(path) > nameLimits.pathBytes
        ? `is over ${nameLimits.pathBytes} bytes`
        : segments.length > nameLimits.levels
          ? `is over ${nameLimits.levels} folders deep`
          : null
  return fault === null
    ? null
    : { code: 'INVALID_FILENAME', message: `A name in the archive ${fault}: ${shownName(path)}` }
}

/**
 * Whether a link cannot leave the tree. `..` is allowed only at the start of the target: after a name it would be relative to the target
 * of that name, which may be a link itself.
 */
export function staysInside(link: string, target: string): boolean {
  const segments = target.split('/').filter(segment => segment !== '' && segment !== '.')
  const ups = segments.findIndex(segment => segment !== '..')
  const lead = ups < 0 ? segments.length : ups
  return !target.startsWith('/') && lead <= link.split('/').length - 1 && !segments.slice(lead).includes('..')
}

function strictUtf8(bytes: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

/** A name as shown in messages: one line, without control characters, up to 80 characters. */
export function shownName(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f]/g, '?').slice(0, 80)
}

const cp437 =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0'
