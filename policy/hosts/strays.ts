import { dayMs, hourMs } from '../../lib/time.ts'

/** Containers and volumes that the database does not know: how long they are retained, and how many of one kind, applications or databases, are handled at a time. */
export const strayTerms = {
  /** Days from the first sighting to the removal. */
  keptDays: 7,
  /** How many are quarantined per hour, and also removed; or, if larger, this share of all of their kind on the host. */
  atOnce: 3,
  shareAtOnce: 0.1,
} as const

/** When an application, or a generation of a database, was first seen as a stray, and when it was removed, in milliseconds since 1970. */
export interface StrayNote {
  since: number
  removed?: number
}

export type StrayNotes = Readonly<Record<string, StrayNote>>

export interface StrayDecision {
  /** To be quarantined now. */
  aside: string[]
  /** Quarantined for long enough. */
  remove: string[]
  /** The database knows none of many on a host: it must be the wrong one, and nothing is changed. */
  wrongDatabase: boolean
}

/** Which of the `unknown` ids of one kind are quarantined or removed now, on a host with `known` others. */
export function decideStrays(unknown: readonly string[], known: number, notes: StrayNotes, now: number): StrayDecision {
  const all = known + unknown.length
  if (known === 0 && all > strayTerms.atOnce) return { aside: [], remove: [], wrongDatabase: true }
  const maxPerHour = Math.max(strayTerms.atOnce, Math.floor(all * strayTerms.shareAtOnce))
  const within = (at: number | undefined) => at !== undefined && now - at < hourMs
  const allNotes = Object.values(notes)
  const room = (spent: number) => Math.max(0, maxPerHour - spent)
  const aside = unknown.filter(id => !notes[id]).slice(0, room(allNotes.filter(note => within(note.since)).length))
  const overdue = (note: StrayNote | undefined) => note && now - note.since >= strayTerms.keptDays * dayMs
  const remove = unknown
    .filter(id => overdue(notes[id]))
    .slice(0, room(allNotes.filter(note => within(note.removed)).length))
  return { aside, remove, wrongDatabase: false }
}

/** The notes that are still needed: of unknown ids, and of those removed within the last hour. */
export function currentNotes(notes: StrayNotes, unknown: readonly string[], now: number): StrayNotes {
  const current = Object.entries(notes).filter(
    ([id, { removed }]) => unknown.includes(id) || (removed !== undefined && now - removed < hourMs),
  )
  return Object.fromEntries(current)
}
