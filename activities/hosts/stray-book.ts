import { readFile } from 'node:fs/promises'
import { replaceFile } from '../../lib/folders/replace-file.ts'
import type { StrayNotes } from '../../policy/hosts/strays.ts'

/** The notes of a host about its strays. They lie at the host, because the database may be wrong. */
export interface StrayBook {
  read(): Promise<StrayNotes>
  /** Replaces all notes, whole or not at all. */
  write(notes: StrayNotes): Promise<void>
}

/** The notes as a file. An unreadable file counts as empty: strays then only stay longer. */
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
    write: notes => replaceFile(path, JSON.stringify(notes)),
  }
}

/** Stores nothing: strays are quarantined and stay. */
export const blankBook: StrayBook = { read: async () => ({}), write: async () => {} }
