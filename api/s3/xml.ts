/** An element: a text, elements by name, or a list of elements that have one name. Undefined and null are left out. */
export type Xml =
  | string
  | number
  | boolean
  | null
  | undefined
  | Date
  | readonly Xml[]
  | { readonly [name: string]: Xml }

const namespace = 'http://s3.amazonaws.com/doc/2006-03-01/'

/** The document of a result. */
export const xmlResult = (name: string, content: Xml): string =>
  `${declaration}<${name} xmlns="${namespace}">${inner(content)}</${name}>`

/** The document of an error, which S3 sends without a namespace. */
export const xmlError = (content: Xml): string => `${declaration}<Error>${inner(content)}</Error>`

const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'

function inner(content: Xml): string {
  if (content === null || content === undefined) return ''
  if (content instanceof Date) return content.toISOString()
  if (typeof content !== 'object') return escaped(String(content))
  return Object.entries(content)
    .map(([name, value]) => element(name, value))
    .join('')
}

/** A name may be followed by attributes, which are written as they are: they come from code only. */
function element(name: string, value: Xml): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value)) return value.map(one => element(name, one)).join('')
  return `<${name}>${inner(value)}</${name.split(' ', 1)[0]}>`
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/**
 * A text in XML 1.0, in which most control characters cannot occur, not even as references: they become U+FFFD. Clients that list such keys
 * ask for `encoding-type=url`. Tabs and line ends are written as references, because parsers fold them.
 */
function escaped(text: string): string {
  return text
    .replace(/[&<>"]/g, character => entities[character]!)
    .replace(/[\t\n\r]/g, character => `&#${character.charCodeAt(0)};`)
    .replace(/[\0-\x1f\ufffe\uffff\p{Surrogate}]/gu, '\ufffd')
}
