import { readFile, rename, writeFile } from 'node:fs/promises'
import type { StrayNotes } from '../../policy/hosts/strays.ts'

/** What a host remembers of its strays. It lies at the host: the database is what is in doubt. */
export interface StrayBook {
  read(): Promise<StrayNotes>
  /** Replaces all notes, whole or not at all. */
  write(notes: StrayNotes): Promise<void>
}

/** The book as a file. One that cannot be read is an empty one: strays then only stay longer. */
export function strayBook(path: string): StrayBook {
  return {
    async read() {
      const text = await readFile(path, 'utf8').catch(() => '{}')
      try {
        return JSON.parse(text) as StrayNotes
      } catch {
        return {}
      }
    },
    async write(notes) {
      await writeFile(`${path}.new`, JSON.stringify(notes), { mode: 0o600, flush: true })
      await rename(`${path}.new`, path)
    },
  }
}

/** Remembers nothing: strays are set aside and stay. */
export const blankBook: StrayBook = { read: async () => ({}), write: async () => {} }
