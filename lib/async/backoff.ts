export interface BackoffOptions {
  firstSeconds: number
  maxSeconds: number
  now?: (() => number) | undefined
}

/** Which of many targets a loop looks at again, and when: after a delay that doubles each time that it finds one still there. */
export class Backoff {
  private readonly targets = new Map<string, { until: number; seconds: number }>()
  private readonly options: BackoffOptions & { now: () => number }

  constructor(options: BackoffOptions) {
    this.options = { ...options, now: options.now ?? (() => performance.now()) }
  }

  /** The targets whose time has not come. */
  waiting(): string[] {
    const now = this.options.now()
    return [...this.targets].filter(([, { until }]) => until > now).map(([target]) => target)
  }

  /** Whether the time of this target has not come. */
  waits(target: string): boolean {
    return (this.targets.get(target)?.until ?? 0) > this.options.now()
  }

  /** The target is as it should be: the next time it begins anew. */
  forget(target: string): void {
    this.targets.delete(target)
  }

  /** The target was looked at now. */
  seen(target: string): void {
    const { firstSeconds, maxSeconds, now } = this.options
    const before = this.targets.get(target)?.seconds
    const seconds = before === undefined ? firstSeconds : Math.min(maxSeconds, before * 2)
    this.targets.set(target, { until: now() + seconds * 1000, seconds })
  }

  /** Targets whose time has come and that were not found again begin anew. */
  forgetOthers(found: readonly string[]): void {
    const now = this.options.now()
    const still = new Set(found)
    for (const [target, { until }] of this.targets) if (until <= now && !still.has(target)) this.targets.delete(target)
  }
}
