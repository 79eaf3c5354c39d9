import type { Db } from '../database.ts'

/** A place among deployments in the order of their age. */
interface Place {
  /** As Postgres tells it: a Date has no microseconds. */
  at: string
  id: string
}

const oldest: Place = { at: '-infinity', id: '' }

/** Deployments that one look goes over. */
const lookAtOnce = 5000

/**
 * Goes round the deployments that are older than so many days, from the oldest on and some at a time. Most of them stay, as the newest
 * of their applications, and a look at all of them in every round would take longer the more applications there are.
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
   * Lets `sweep` remove some of the next, by a condition on `deployment`, an alias of their table, with its values. The look goes on
   * behind them once `sweep` has found fewer than `limit`. Resolves to what `sweep` does.
   */
  async look(
    db: Db,
    limit: number,
    sweep: (among: (deployment: string) => string, values: Record<string, string | number>) => Promise<number>,
  ): Promise<number> {
    const { at, id } = this.#after
    const days = this.#days
    const { rows }: { rows: Place[] } = await db.raw(
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
