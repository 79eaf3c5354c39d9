/** What a host has of an application that its database does not know: how long it is kept, and how much is touched at a time. */
export const strayTerms = {
  /** Days from the first sight to the removal. */
  keptDays: 7,
  /** So many applications an hour are set aside, and as many removed, or this share of all that the host has. */
  atOnce: 3,
  shareAtOnce: 0.1,
} as const

/** When an application's things were first seen as strays and when they were removed, in milliseconds since 1970. */
export interface StrayNote {
  since: number
  removed?: number
}

export type StrayNotes = Readonly<Record<string, StrayNote>>

export interface StrayDecision {
  /** To be set aside for the first time. */
  aside: string[]
  /** Set aside for long enough. */
  remove: string[]
  /** The database knows nothing of a host that has many applications: it is taken for the wrong one, and nothing is touched. */
  wrongDatabase: boolean
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Which of the `unknown` ids are touched now, on a host that has so many `known` ones beside them. */
export function decideStrays(unknown: readonly string[], known: number, notes: StrayNotes, now: number): StrayDecision {
  const all = known + unknown.length
  if (known === 0 && all > strayTerms.atOnce) return { aside: [], remove: [], wrongDatabase: true }
  const anHour = Math.max(strayTerms.atOnce, Math.floor(all * strayTerms.shareAtOnce))
  const within = (at: number | undefined) => at !== undefined && now - at < hourMs
  const touched = Object.values(notes)
  const room = (spent: number) => Math.max(0, anHour - spent)
  const aside = unknown.filter(id => !notes[id]).slice(0, room(touched.filter(note => within(note.since)).length))
  const overdue = (note: StrayNote | undefined) => note && now - note.since >= strayTerms.keptDays * dayMs
  const remove = unknown
    .filter(id => overdue(notes[id]))
    .slice(0, room(touched.filter(note => within(note.removed)).length))
  return { aside, remove, wrongDatabase: false }
}

/** The notes that are still needed: of what is unknown, and of what was removed within the last hour. */
export function currentNotes(notes: StrayNotes, unknown: readonly string[], now: number): StrayNotes {
  const kept = Object.entries(notes).filter(
    ([id, { removed }]) => unknown.includes(id) || (removed !== undefined && now - removed < hourMs),
  )
  return Object.fromEntries(kept)
}
