const maxSubjects = 10_000

/** Counts events of a subject within a window, in this process. */
export class SenderCounts {
  readonly #counts = new Map<string, { sent: number; until: number }>()

  constructor(private readonly terms: { allow: number; perSeconds: number }) {}

  add(subject: string, now: number): void {
    const count = this.#counts.get(subject)
    if (count && count.until > now) return void count.sent++
    makeRoom(this.#counts)
    this.#counts.set(subject, { sent: 1, until: now + this.terms.perSeconds * 1000 })
  }

  /** Whether a subject has sent as many as are allowed, so that another one is too many. */
  isOver(subject: string, now: number): boolean {
    const count = this.#counts.get(subject)
    return count !== undefined && count.until > now && count.sent >= this.terms.allow
  }
}

/** Buckets that were found empty, in this process. */
export class EmptyBuckets {
  readonly #until = new Map<string, number>()

  add(key: string, seconds: number, now: number): void {
    makeRoom(this.#until)
    this.#until.set(key, now + seconds * 1000)
  }

  /** Whole seconds until the bucket accepts something again; 0 when it may now. */
  waitSeconds(key: string, now: number): number {
    return Math.max(0, Math.ceil(((this.#until.get(key) ?? 0) - now) / 1000))
  }
}

function makeRoom(subjects: Map<string, unknown>): void {
  if (subjects.size >= maxSubjects) subjects.clear()
}
