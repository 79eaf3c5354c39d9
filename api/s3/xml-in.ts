import { SaxesParser } from 'saxes'
import { S3Error } from '../../policy/s3/s3-errors.ts'

/** An element of a document that a client sent. Attributes are not read: no operation depends on one. */
export interface XmlElement {
  /** Without its prefix: clients differ in whether they name the namespace of S3. */
  name: string
  /** Its own text, as it was sent; not that of its children. */
  text: string
  children: readonly XmlElement[]
}

const maxDepth = 8
/** 10,000 parts with a number, an ETag and up to three checksums. */
const maxElements = 60_000
/** Of one element. No operation reads any; namespaces and types are a few. */
const maxAttributes = 16
const acceptedEncoding = /^(utf-?8|us-ascii)$/i
/** The parser skips the byte order mark, once. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads a document in UTF-8; returns its root. Throws MalformedXML for one that is not well-formed, has a DOCTYPE, more than 8 levels, more than
 * 60,000 elements, or more than 16 attributes of one. Time and memory are proportional to the body, whose size the caller limits.
 */
export function readXml(body: Buffer): XmlElement {
  try {
    return parsed(utf8.decode(body))
  } catch {
    throw new S3Error('MalformedXML')
  }
}

function parsed(document: string): XmlElement {
  // Namespaces stay unresolved: for each attribute the parser would join its name and its namespace, which may have half a megabyte.
  const parser = new SaxesParser({ position: false })
  const root = { name: '', text: '', children: [] as XmlElement[] }
  const open = [root]
  let elements = 0
  parser.on('xmldecl', ({ encoding }) => {
    if (encoding !== undefined && !acceptedEncoding.test(encoding)) throw new Error('encoding')
  })
  parser.on('doctype', () => {
    throw new Error('DOCTYPE')
  })
  let attributes = 0
  parser.on('attribute', () => {
    if (++attributes > maxAttributes) throw new Error('attributes')
  })
  parser.on('opentag', ({ name }) => {
    attributes = 0
    if (open.length > maxDepth || ++elements > maxElements) throw new Error('size')
    const element = { name: name.slice(name.lastIndexOf(':') + 1), text: '', children: [] }
    open.at(-1)!.children.push(element)
    open.push(element)
  })
  parser.on('closetag', () => {
    open.pop()
  })
  const addText = (text: string) => {
    open.at(-1)!.text += text
  }
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.write(document).close()
  return root.children[0]!
}

/** The first child of a name. */
export const childOf = ({ children }: XmlElement, name: string): XmlElement | undefined =>
  children.find(child => child.name === name)

/** All children of a name, in their order. */
export const childrenOf = ({ children }: XmlElement, name: string): XmlElement[] =>
  children.filter(child => child.name === name)

/** The text of the first child of a name. */
export const childText = (element: XmlElement, name: string): string | undefined => childOf(element, name)?.text
