import type { Db } from '../database.ts'

/** A position among deployments ordered by age. */
interface Position {
  /** As text from Postgres: a Date has no microseconds. */
  at: string
  id: string
}

const oldest: Position = { at: '-infinity', id: '' }

/** Deployments that one look covers. */
const lookAtOnce = 5000

/**
 * Walks the deployments that are older than `days`, oldest first and a range at a time, and starts over at the end. Most of them stay,
 * as the newest of their applications: reading all of them in every round would take longer with every application.
 */
export class OldDeployments {
  readonly #days: number
  readonly #atOnce: number
  readonly #only: string
  #after = oldest

  /** `only` is a condition on a deployment. */
  constructor(days: number, { only = 'true', atOnce = lookAtOnce } = {}) {
    this.#days = days
    this.#only = only
    this.#atOnce = atOnce
  }

  /**
   * Calls `sweep` for the next range, with a condition on `deployment`, an alias of their table, and its values. The walk moves on once
   * `sweep` has removed fewer than `limit`. Resolves to the result of `sweep`.
   */
  async look(
    db: Db,
    limit: number,
    sweep: (among: (deployment: string) => string, values: Record<string, string | number>) => Promise<number>,
  ): Promise<number> {
    const { at, id } = this.#after
    const days = this.#days
    const { rows }: { rows: Position[] } = await db.raw(
      `select created_at::text as at, id from deployments
        where created_at < now() - make_interval(days => :days) and (created_at, id) > (:at::timestamptz, :id) and ${this.#only}
        order by created_at, id offset :skipped limit 1`,
      { days, at, id, skipped: this.#atOnce - 1 },
    )
    const last = rows[0]
    const to = last ?? { at: 'infinity', id: '' }
    const removed = await sweep(
      deployment =>
        `${deployment}.created_at < now() - make_interval(days => :days)
           and (${deployment}.created_at, ${deployment}.id) > (:at::timestamptz, :id)
           and (${deployment}.created_at, ${deployment}.id) <= (:toAt::timestamptz, :toId)`,
      { days, at, id, toAt: to.at, toId: to.id },
    )
    if (removed < limit) this.#after = last ?? oldest
    return removed
  }
}
