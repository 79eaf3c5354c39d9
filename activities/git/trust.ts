import { readFile, stat } from 'node:fs/promises'
import { createSecureContext, type SecureContext } from 'node:tls'

/**
 * What connections trust, by a file that has every authority. Parsing a hundred of them takes as long as a connection, so the newest
 * result is used until the file is another one.
 */
export function trustContexts() {
  let newest: { mark: string; context: SecureContext } | null = null
  return {
    /** Null without a file: the authorities of Node. Rejects when it cannot be read. */
    async of(caBundle: string | null): Promise<SecureContext | null> {
      if (caBundle === null) return null
      const { ino, size, mtimeMs } = await stat(caBundle)
      const mark = `${caBundle} ${ino} ${size} ${mtimeMs}`
      if (newest?.mark !== mark) newest = { mark, context: createSecureContext({ ca: await readFile(caBundle) }) }
      return newest.context
    },
  }
}
