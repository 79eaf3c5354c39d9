/** The path that answers malformed requests: no client's path equals it, because nginx removes `..`. */
export const malformedPath = '/../malformed'

/** A directive with its block, indented by two spaces. */
export function block(head: string, lines: string[]): string[] {
  return [`${head} {`, ...lines.map(line => `  ${line}`), '}']
}

/** A path and our own suffix as one quoted word. Throws an Error for a path with characters that are syntax for nginx. */
export function quotedNginx(path: string, suffix = ''): string {
  if (/["$\\{};\n\r]/.test(path))
    throw new Error(`The proxy cannot use the path ${JSON.stringify(path)}: rename the folder.`)
  return `"${path}${suffix}"`
}
