/** Extensions of programs that must not be stored (contract 7.7). */
const blocked = new Set(['exe', 'msi', 'bat', 'cmd', 'com', 'scr', 'dll'])

export const isBlockedType = (extension: string): boolean => blocked.has(lastPart(extension))

/** Content types with their extensions, the usual one first. Types that a browser would execute are served as downloads all the same. */
const types = {
  'application/gzip': 'gz tar.gz tgz',
  'application/json': 'json map',
  'application/msword': 'doc',
  'application/pdf': 'pdf',
  'application/rtf': 'rtf',
  'application/vnd.android.package-archive': 'apk',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.ms-powerpoint': 'ppt',
  'application/vnd.oasis.opendocument.presentation': 'odp',
  'application/vnd.oasis.opendocument.spreadsheet': 'ods',
  'application/vnd.oasis.opendocument.text': 'odt',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/wasm': 'wasm',
  'application/x-7z-compressed': '7z',
  'application/x-bzip2': 'bz2 tar.bz2',
  'application/x-ndjson': 'ndjson jsonl',
  'application/x-rar-compressed': 'rar',
  'application/x-tar': 'tar',
  'application/x-xz': 'xz tar.xz',
  'application/xhtml+xml': 'xhtml',
  'application/xml': 'xml',
  'application/yaml': 'yaml yml',
  'application/zip': 'zip',
  'application/zstd': 'zst tar.zst',
  'audio/aac': 'aac',
  'audio/flac': 'flac',
  'audio/midi': 'mid midi',
  'audio/mp4': 'm4a',
  'audio/mpeg': 'mp3',
  'audio/ogg': 'ogg oga opus',
  'audio/wav': 'wav',
  'audio/webm': 'weba',
  'font/otf': 'otf',
  'font/ttf': 'ttf',
  'font/woff': 'woff',
  'font/woff2': 'woff2',
  'image/apng': 'apng',
  'image/avif': 'avif',
  'image/bmp': 'bmp',
  'image/gif': 'gif',
  'image/heic': 'heic',
  'image/heif': 'heif',
  'image/jpeg': 'jpg jpeg jfif',
  'image/jxl': 'jxl',
  'image/png': 'png',
  'image/svg+xml': 'svg',
  'image/tiff': 'tiff tif',
  'image/vnd.microsoft.icon': 'ico',
  'image/webp': 'webp',
  'model/gltf-binary': 'glb',
  'text/calendar': 'ics',
  'text/css': 'css',
  'text/csv': 'csv',
  'text/html': 'html htm',
  'text/javascript': 'js mjs',
  'text/markdown': 'md',
  'text/plain': 'txt log ini toml conf',
  'text/tab-separated-values': 'tsv',
  'text/vtt': 'vtt',
  'video/mp2t': 'ts',
  'video/mp4': 'mp4 m4v',
  'video/mpeg': 'mpeg mpg',
  'video/ogg': 'ogv',
  'video/quicktime': 'mov',
  'video/webm': 'webm',
  'video/x-matroska': 'mkv',
  'video/x-msvideo': 'avi',
} as const

const byExtension = new Map(Object.entries(types).flatMap(([type, list]) => list.split(' ').map(one => [one, type])))

const lastPart = (extension: string): string => extension.slice(extension.lastIndexOf('.') + 1)

/** The content type of an extension; for `tar.<x>` without its own type that of the last part; default: binary data. */
export const contentTypeOf = (extension: string): string =>
  byExtension.get(extension) ?? byExtension.get(lastPart(extension)) ?? 'application/octet-stream'

/** The usual extension of a content type, with or without parameters; undefined for one without extension. */
export function extensionOfType(contentType: string): string | undefined {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return Object.hasOwn(types, type) ? types[type as keyof typeof types].split(' ', 1)[0] : undefined
}

/** Types that a browser would execute in the origin of the serving host. */
const active = /^(?:text\/(?:html|xml|xsl)|application\/(?:xml|xhtml\+xml)|[^;]+\+xml)\s*(?:;|$)/i

/** A type with its parameters, as browsers and RFC 9110 read it. A comma would separate it from a second type, which browsers prefer. */
const typeForm =
  /^[a-z0-9][\w!#$&^.+-]*\/[a-z0-9][\w!#$&^.+-]*(?:[ \t]*;[ \t]*[\w!#$&^.+-]+=(?:[\w!#$%&'*^`|~.+-]+|"[^",\\]*"))*[ \t]*;?$/i

/** Types whose bodies have parts with types of their own, and those for which browsers look into the body. */
const indirect = /^(?:multipart|message|unknown)\/|^application\/unknown(?:;|$)/i

/** Whether a browser would run a body of this type: as a document with scripts, or as something else than the type says. */
export const mayRun = (contentType: string): boolean => active.test(contentType) || isOpaque(contentType)

/** Whether what a browser would make of a type is unknown, even where nothing runs: it must not be named to one. */
export const isOpaque = (contentType: string): boolean => !typeForm.test(contentType) || indirect.test(contentType)

const ending = /[^/\\.][^/\\]*?\.((?:tar\.)?[a-z0-9]{1,16})$/i
const twoParts = /[^/\\.]\.([a-z0-9]{1,16}\.[a-z0-9]{1,16})$/i

/** The extension of a file name in lower case; empty when it has none, undefined when it has an invalid one. */
export function extensionOf(fileName: string): string | undefined {
  const extension = ending.exec(fileName)?.[1]
  if (extension) return extension.toLowerCase()
  return /[^/\\]\.[^/\\]*$/.test(fileName) ? undefined : ''
}

/** Types of a file for lists of file types: its extension, the last part of it, and the last two parts of its name (contract 7.28). */
export function typesOf(fileName: string): string[] {
  const extension = extensionOf(fileName) ?? ''
  const two = twoParts.exec(fileName)?.[1]?.toLowerCase()
  return [...new Set([extension, lastPart(extension), two ?? extension])]
}

/** A file name without folders and extension, in characters that are valid in an object's name; empty when none are left. */
export function nameOfFile(fileName: string): string {
  const base = fileName.split(/[/\\]/).at(-1)!
  const extension = extensionOf(base)
  const stem = extension ? base.slice(0, -extension.length - 1) : base
  const legal = stem
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^A-Za-z0-9_.-]+/g, '-')
    .replace(/\.{2,}/g, '.')
    .replace(/^[.-]+/, '')
    .slice(0, 128)
  return legal.replace(/(-ex\d+|[.-])+$/, '')
}
